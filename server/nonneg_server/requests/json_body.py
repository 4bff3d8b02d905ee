"""JSON bodies: parsed within their limits, large ones on another thread."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson
from starlette.requests import Request

from nonneg_core.errors import RequestInvalid, TooLarge
from nonneg_server.requests.body import read_body

Parsed = TypeVar("Parsed")
LARGE = 1_000_000  # bytes
MOST_ENTRIES = 4_000_000  # of a body
_one_by_one = ThreadPoolExecutor(1, "large-body")


def json_object(body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object."""
    if len(body) > LARGE:
        check_entries(body)
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestInvalid(
            f"the body is not JSON ({error})", fix="send one JSON object in UTF-8", field="body"
        ) from None
    if not isinstance(given, dict):
        raise RequestInvalid("the body is JSON but no object", fix="send one JSON object: see /docs", field="body")
    check_keys(body, given)
    return given


def check_keys(body: bytes, given: dict[str, Any]) -> None:
    """Refuse an object that holds a key twice: one reader would take the first value and another the last.

    The parser keeps the last one silently. A text with escapes, with an object that was not found, or with a key more
    often than it was found, is read again by a parser that tells.
    """
    keys: Counter[str] = Counter()
    objects, waiting = 0, [given]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, dict):
            objects += 1
            keys.update(value.keys())
            waiting += value.values()
        elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
            waiting += value
    repeated = any(body.count(b'"%b"' % key.encode()) > count for key, count in keys.items())
    if repeated or b"\\u" in body or body.count(b"{") != objects:
        json.loads(body, object_pairs_hook=_without_repetition)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RequestInvalid(f"the body holds {key[:40]!r} twice", fix="send it once", field=key[:40])
        found[key] = value
    return found


def check_entries(body: bytes) -> None:
    """Refuse a large body of little but brackets and commas: it would fill the memory many times over."""
    for what, count in (("lists and objects", body.count(b"[") + body.count(b"{")), ("entries", body.count(b","))):
        if count > MOST_ENTRIES:
            raise TooLarge(
                f"the body holds {count} {what}, the limit is {MOST_ENTRIES}",
                fix="send several requests, or binary: .npy, a form, KServe's binary tensors",
                field="body",
                value=count,
                limit=MOST_ENTRIES,
            )


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request in another dialect, where JSON is the only form."""
    body = await read_body(request, request.app.state.settings.max_body)
    return await parse_in_thread(body, lambda: json_object(body))


async def parse_in_thread(body: bytes, parse: Callable[[], Parsed]) -> Parsed:
    """Parse a large body on another thread, one after the other: what JSON becomes is many times as large."""
    return await serialized(parse) if len(body) > LARGE else parse()


async def serialized(work: Callable[[], Parsed]) -> Parsed:
    """Run work that takes much memory, one piece at a time, on another thread."""
    return await asyncio.get_running_loop().run_in_executor(_one_by_one, work)
