"""JSON bodies: parsed within their limits, large ones on another thread."""

from __future__ import annotations

import asyncio
import json
import re
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
MOST_LISTS = 1_000_000  # and objects; while they are made no other thread runs, a quarter of a second for so many
MAX_DEPTH = 32  # lists and objects within one another; a chat message with a photo has six
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_LISTS = bytes.maketrans(b"{}", b"[]")
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_one_by_one = ThreadPoolExecutor(1, "large-body")


def json_object(body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object."""
    if len(body) > LARGE:
        check_entries(body)
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestInvalid(
            f"the body is not JSON: see line {error.lineno}, column {error.colno}",
            fix="send one JSON object in UTF-8",
            field="body",
        ) from None
    if not isinstance(given, dict):
        raise RequestInvalid("the body is JSON but no object", fix="send one JSON object: see /docs", field="body")
    check_depth(body)
    check_keys(body, given)
    return given


def check_depth(body: bytes) -> None:
    """Refuse valid JSON that is nested deeper than any request: code that follows it by recursion would fail."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    if _levels(body) > MAX_DEPTH and _levels(_TEXTS.sub(b"", body)) > MAX_DEPTH:  # texts may hold brackets
        raise RequestInvalid(
            f"the body is nested deeper than the limit of {MAX_DEPTH} levels",
            fix="send lists and objects as shallow as /docs shows them",
            field="body",
            limit=MAX_DEPTH,
        )


def _levels(body: bytes) -> int:
    """Return how many times the innermost brackets can be taken away, up to one more than the limit."""
    brackets = body.translate(_LISTS, _NO_BRACKETS)
    levels = 0
    while brackets and levels <= MAX_DEPTH:
        brackets, levels = brackets.replace(b"[]", b""), levels + 1
    return levels


def check_keys(body: bytes, given: dict[str, Any]) -> None:
    """Refuse an object that holds a key twice: one reader would take the first value and another the last.

    The parser keeps the last one silently. A colon follows every key, so that a body in which there are no more of them
    than keys and texts that were found have, has lost none. Any other is read again, by a parser that tells; so is one
    in which a text may hold a colon that is written as an escape.
    """
    if body.count(b":") != _colons(given) or b"\\u003" in body:
        _read_pairs(body)


def _colons(given: dict[str, Any]) -> int:
    """Return how many colons stand behind the keys and in the texts of an object; lists of numbers are passed over."""
    found, waiting = 0, [given]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, str):
            found += value.count(":")
        elif isinstance(value, dict):
            found += len(value) + "".join(value).count(":")
            waiting += value.values()
        elif isinstance(value, list) and value and isinstance(value[0], (dict, list, str)):
            waiting += value
    return found


def _read_pairs(body: bytes) -> None:
    """Read a body for its keys alone: a number of thousands of digits costs more than its text."""
    json.loads(body, object_pairs_hook=_without_repetition, parse_int=len, parse_float=len)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RequestInvalid(f"the body holds {key[:40]!r} twice", fix="send it once", field=key[:40])
        found[key] = value
    return found


def check_entries(body: bytes) -> None:
    """Refuse a large body of little but brackets and commas: it would fill the memory many times over."""
    lists = body.count(b"[") + body.count(b"{")
    for what, count, most in (("lists and objects", lists, MOST_LISTS), ("entries", body.count(b","), MOST_ENTRIES)):
        if count > most:
            raise TooLarge(
                f"the body holds {count} {what}, the limit is {most}",
                fix="send several requests, or binary: .npy, a form, KServe's binary tensors",
                field="body",
                value=count,
                limit=most,
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
