"""The native request: whatever form it came in, the images and the parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel
from starlette.requests import Request

from nonneg_core.errors import MediaUnsupported, ParameterInvalid, RequestInvalid, TooLarge
from nonneg_server.requests.body import read_body
from nonneg_server.requests.images import Incoming, Limits, images_from
from nonneg_server.requests.multipart import parse_form
from nonneg_server.requests.parameters import from_json, from_strings, merged

Asked = TypeVar("Asked", bound=BaseModel)
Parsed = TypeVar("Parsed")
LARGE = 1_000_000  # bytes
_one_by_one = ThreadPoolExecutor(1, "large-body")
MOST_ENTRIES = 4_000_000  # of a JSON body
FILES = ("images", "images[]", "image", "file", "files")  # the names a form's files may have


async def read_request(request: Request, kind: type[Asked]) -> tuple[list[Incoming], Asked]:
    """The images and the parameters of multipart, raw bytes or JSON, by the Content-Type."""
    query = query_parameters(request.scope["query_string"], kind)
    content_type = request.headers.get("content-type", "")
    body = await read_body(request, request.app.state.settings.max_body)
    media = media_of(content_type)
    if is_image(media):
        return [body], query
    limits = request.app.state.settings.limits
    if media == "multipart/form-data":
        images, parameters = _from_form(body, content_type, kind, limits)
    elif media == "application/json":
        images, parameters = await off_the_loop(body, lambda: _from_object(json_object(body), kind, limits))
    else:
        raise MediaUnsupported(
            f"a body of {media!r} is not understood",
            fix="send image/*, multipart/form-data or application/json",
            field="content-type",
            value=media,
        )
    return images, merged(query, parameters)


def media_of(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_image(media: str) -> bool:
    """Whether a body of this type is one image's bytes; what they are, they say themselves."""
    return media.startswith("image/") or media in ("", "application/octet-stream")


def query_parameters(query: bytes, kind: type[Asked]) -> Asked:
    """What the URL asks for."""
    text = query.decode("latin-1")
    return from_strings(kind, parse_qsl(text, keep_blank_values=True) if text else ())


def _from_form(body: bytes, content_type: str, kind: type[Asked], limits: Limits) -> tuple[list[Incoming], Asked]:
    form = parse_form(body, content_type, limits.images)
    for name in form.names:
        if name not in FILES:
            raise ParameterInvalid(
                f"a file in the field {name!r}", fix="name it images: curl -F images=@a.jpg", field=name, value=name
            )
    return list(form.files), from_strings(kind, form.parameters)


def _from_object(given: dict[str, Any], kind: type[Asked], limits: Limits) -> tuple[list[Incoming], Asked]:
    if "images" not in given:
        raise ParameterInvalid("the body has no images", fix='send {"images": ["<base64>", …]}', field="images")
    listed = given.pop("images")
    if not isinstance(listed, list):
        raise ParameterInvalid(
            "images is no list", fix='send {"images": ["<base64>", …]}', field="images", value=type(listed).__name__
        )
    return images_from(listed, "images", limits), from_json(kind, given)


def json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object."""
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
    return given


def check_entries(body: bytes) -> None:
    """A large body of little but brackets and commas would fill the memory many times over."""
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
    """The JSON object of a request in another dialect, where JSON is the only form."""
    body = await read_body(request, request.app.state.settings.max_body)
    return await off_the_loop(body, lambda: json_object(body))


async def off_the_loop(body: bytes, parse: Callable[[], Parsed]) -> Parsed:
    """Parse a large body on another thread, one after the other: what JSON becomes is many times as large."""
    return await in_turn(parse) if len(body) > LARGE else parse()


async def in_turn(work: Callable[[], Parsed]) -> Parsed:
    """Do what takes much memory when nobody else does; others are served meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_one_by_one, work)
