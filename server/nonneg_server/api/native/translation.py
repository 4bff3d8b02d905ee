"""The native request: whatever form it came in, the images and the parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request

from nonneg_core.errors import MediaUnsupported, NonnegError, ParameterInvalid
from nonneg_core.pixels.identify import signature
from nonneg_server.api.native.schemas import ErrorAnswer, ErrorDetail
from nonneg_server.requests.body import read_body
from nonneg_server.requests.images import Incoming, Limits, check_count, images_from
from nonneg_server.requests.json_body import json_object, parse_in_thread
from nonneg_server.requests.multipart import parse_form
from nonneg_server.requests.parameters import from_json, from_strings, merged
from nonneg_server.requests.texts import input_from, texts_from

P = TypeVar("P", bound=BaseModel)
FILES = ("images", "images[]", "image", "file", "files")  # the names a form's files may have

LISTS = {
    "images": 'send {"images": ["<base64>", …]}',
    "texts": 'send {"texts": ["a dog", …]}',
    "inputs": 'send {"inputs": [{"image": "<base64>"}, {"text": "a dog"}, …]}',
}
MOST_PARAMETERS = 64  # of one URL


ReadObject = Callable[[dict[str, Any], Limits], tuple[list[Incoming], P]]


async def read_request(
    request: Request, kind: type[P], read_object: ReadObject[P] | None = None
) -> tuple[list[Incoming], P]:
    """Return the images and the parameters of multipart, raw bytes or JSON, by the Content-Type.

    `read_object` reads the JSON object, if that may be one of another API.
    """
    read = read_object or partial(from_object, kind)
    query = query_parameters(request.scope["query_string"], kind)
    content_type = request.headers.get("content-type", "")
    body = await read_body(request, request.app.state.settings.max_body)
    media = media_of(content_type)
    if is_image(media, body):
        return [body], query
    limits = request.app.state.settings.limits
    if media == "multipart/form-data":
        images, parameters = _from_form(body, content_type, kind, limits)
    elif media == "application/json":
        images, parameters = await parse_in_thread(body, lambda: read(json_object(body), limits))
    else:
        raise MediaUnsupported(
            f"a body of {media!r} is not understood",
            fix="send image/*, multipart/form-data or application/json",
            field="content-type",
            value=media,
        )
    return images, merged(query, parameters)


def media_of(content_type: str) -> str:
    """Return the media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_image(media: str, body: bytes) -> bool:
    """Return whether a body is one image's bytes: so its type says, or, where curl chose the type, so do the bytes."""
    if media == "application/x-www-form-urlencoded":
        return signature(body) is not None
    return media.startswith("image/") or media in ("", "application/octet-stream")


def query_parameters(query: bytes, kind: type[P]) -> P:
    """Return what the URL asks for."""
    text = query.decode("latin-1")
    if text.count("&") >= MOST_PARAMETERS:
        raise ParameterInvalid(
            f"the URL has more than {MOST_PARAMETERS} parameters",
            fix="send each parameter once: see /docs",
            field="query",
            limit=MOST_PARAMETERS,
        )
    return from_strings(kind, parse_qsl(text, keep_blank_values=True) if text else ())


def _from_form(body: bytes, content_type: str, kind: type[P], limits: Limits) -> tuple[list[Incoming], P]:
    form = parse_form(body, content_type, limits.images)
    for name in form.names:
        if name not in FILES:
            raise ParameterInvalid(
                f"a file in the field {name!r}", fix="name it images: curl -F images=@a.jpg", field=name, value=name
            )
    return list(form.files), from_strings(kind, form.parameters)


def from_object(kind: type[P], given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], P]:
    """Return the images, or the texts, or both in one order as `inputs`, and the parameters of a JSON object."""
    takes_texts = "truncate" in kind.model_fields  # else images alone, and any other list is an unknown parameter
    named = [name for name in LISTS if name in given and (takes_texts or name == "images")]
    if not named:
        raise ParameterInvalid("the body has no images", fix=LISTS["images"], field="images")
    field = named[0]
    if len(named) > 1:
        raise ParameterInvalid(f"{field} beside {named[1]}", fix=LISTS["inputs"], field=named[1])
    listed = given.pop(field)
    if not isinstance(listed, list):
        raise ParameterInvalid(f"{field} is not a list", fix=LISTS[field], field=field, value=type(listed).__name__)
    asked = from_json(kind, given)
    truncate = getattr(asked, "truncate", False)
    if field == "images":
        return images_from(listed, field, limits), asked
    if field == "texts":
        return texts_from(listed, field, limits, truncate=truncate), asked
    check_count(len(listed), limits.images, field)
    return [input_from(entry, f"inputs[{i}]", limits, truncate=truncate) for i, entry in enumerate(listed)], asked


def is_mixed(given: dict[str, Any]) -> bool:
    """Return whether `inputs` are ours: objects that say which of them are images and which are texts."""
    entries = given.get("inputs")
    return isinstance(entries, list) and any(isinstance(entry, dict) and "text" in entry for entry in entries)


def error_body(error: NonnegError, request_id: str) -> ErrorAnswer:
    """Return the body of an error: what, where, with which value and limit, and how to fix it."""
    return {"error": cast(ErrorDetail, error.body()), "request_id": request_id}
