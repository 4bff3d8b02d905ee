"""A request's body, read within its limit: as JSON, large ones on another thread, or as multipart/form-data."""

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from nonneg_core.errors import BodyTooLarge, MediaUnsupported, RequestInvalid, TooLarge
from nonneg_server.requests.inputs import check_count

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body, refused by its announced length or as soon as more than `limit` bytes have come."""
    coding = ", ".join(request.headers.getlist("content-encoding")).lower()
    if any(name.strip() not in ("", "identity") for name in coding.split(",")):
        raise MediaUnsupported(
            f"a body in {coding!r} is not unpacked here",
            fix="send it as it is",
            field="content-encoding",
            value=coding[:40],
        )
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdecimal() and len(announced) < 19 and int(announced) > limit:
        raise _too_large(int(announced), limit)  # a number that no client means is left to the count below
    chunks: list[bytes] = []
    received, more = 0, True
    while more:  # not `request.stream()`, whose last, empty chunk would have a whole body copied
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestInvalid(
                f"the connection closed after {received} bytes", fix="send the whole body", field="body", value=received
            )
        chunks.append(message.get("body", b""))
        received += len(chunks[-1])
        if received > limit:
            raise _too_large(received, limit)
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(size: int, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the body has {size} bytes or more, the limit is {limit}",
        fix="send fewer or smaller images a request, or raise --max-body",
        field="max_body",
        value=size,
        limit=limit,
    )


# JSON bodies: parsed within their limits, large ones on another thread.

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
    total, waiting = 0, [given]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, str):
            total += value.count(":")
        elif isinstance(value, dict):
            total += len(value) + "".join(value).count(":")
            waiting += value.values()
        elif isinstance(value, list) and value and isinstance(value[0], (dict, list, str)):
            waiting += value
    return total


def _read_pairs(body: bytes) -> None:
    """Read a body for its keys alone: a number of thousands of digits costs more than its text."""
    json.loads(body, object_pairs_hook=_without_repetition, parse_int=len, parse_float=len)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise RequestInvalid(f"the body holds {key[:40]!r} twice", fix="send it once", field=key[:40])
        members[key] = value
    return members


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


# multipart/form-data, from a body that is already in memory and within its limit.

MAX_FIELD = 4096  # bytes a parameter may have
MAX_FIELDS = 64
MAX_OPTIONS = 32  # of one header, `; name=value` each


@dataclass
class Form:
    """The files, in order, and the parameters."""

    files: list[bytes] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # each file's field name
    parameters: list[tuple[str, str]] = field(default_factory=list)


def parse_form(body: bytes, content_type: str, most: int) -> Form:
    """Split `body` at its boundary; a part with a filename is a file, one without is a parameter.

    Of files there are at most `most`: counted as they are found, for empty parts are many in a few bytes.
    """
    boundary = _options(content_type.encode("latin-1", "replace"), "content-type").get(b"boundary")
    if not boundary:
        raise RequestInvalid(
            "multipart/form-data without a boundary",
            fix="let the HTTP library set the Content-Type",
            field="content-type",
            value=content_type[:80],
        )
    reader = _Reader(most)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        parser.write(body)
        parser.finalize()
    except (FormParserError, UnicodeDecodeError):
        raise _broken("a part's head or a boundary cannot be read, or a head has too many lines") from None
    if not reader.ended:
        raise _broken("the last boundary is missing")
    return reader.form


def _options(header: bytes, field: str) -> dict[bytes, bytes]:
    """Read the options of a header, counted first: each costs, and a megabyte has room for a million."""
    if header.count(b";") > MAX_OPTIONS:
        raise RequestInvalid(
            f"a {field} has more than {MAX_OPTIONS} options",
            fix="send those that a form needs: a boundary, a name, a filename",
            field=field,
            limit=MAX_OPTIONS,
        )
    return parse_options_header(header)[1]


def _broken(why: str) -> RequestInvalid:
    return RequestInvalid(f"the form is broken or cut off ({why})", fix="send the whole body", field="body")


class _Reader:
    """Gathers what the parser calls back."""

    def __init__(self, most: int) -> None:
        self.form = Form()
        self._most = most
        self.ended = False
        self._begin()

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.append(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.append(data[start:end]),
            "on_header_end": self._header,
            "on_part_data": lambda data, start, end: self._data.append(data[start:end]),
            "on_part_end": self._part,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._data: list[bytes] = []
        self._field: list[bytes] = []
        self._value: list[bytes] = []
        self._disposition = b""

    def _header(self) -> None:
        if b"".join(self._field).lower() == b"content-disposition":
            self._disposition = b"".join(self._value)
        self._field, self._value = [], []

    def _part(self) -> None:
        options = _options(self._disposition, "content-disposition")
        name = options.get(b"name", b"").decode()
        content = self._data[0] if len(self._data) == 1 else b"".join(self._data)
        if b"filename" in options:
            self.form.files.append(content)
            check_count(len(self.form.files), self._most)
            self.form.names.append(name)
            return
        if len(self.form.parameters) == MAX_FIELDS:
            raise RequestInvalid(
                f"the form has more than {MAX_FIELDS} parameters",
                fix="send only those there are",
                field="body",
                limit=MAX_FIELDS,
            )
        if len(content) > MAX_FIELD:
            raise RequestInvalid(
                f"the form's field {name!r} has {len(content)} bytes, a parameter has at most {MAX_FIELD}",
                fix="send an image with a filename: curl -F images=@photo.jpg",
                field=name,
                value=len(content),
                limit=MAX_FIELD,
            )
        self.form.parameters.append((name, content.decode()))

    def _end(self) -> None:
        self.ended = True
