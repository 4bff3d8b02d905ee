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
from nonneg_server.api.native.schemas import ErrorDetail, Failure
from nonneg_server.requests.body import read_body
from nonneg_server.requests.images import Incoming, Limits, images_from
from nonneg_server.requests.json_body import json_object, off_the_loop
from nonneg_server.requests.multipart import parse_form
from nonneg_server.requests.parameters import from_json, from_strings, merged

Asked = TypeVar("Asked", bound=BaseModel)
FILES = ("images", "images[]", "image", "file", "files")  # the names a form's files may have

MOST_PARAMETERS = 64  # of one URL


ReadObject = Callable[[dict[str, Any], Limits], tuple[list[Incoming], Asked]]


async def read_request(
    request: Request, kind: type[Asked], read_object: ReadObject[Asked] | None = None
) -> tuple[list[Incoming], Asked]:
    """The images and the parameters of multipart, raw bytes or JSON, by the Content-Type.

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
        images, parameters = await off_the_loop(body, lambda: read(json_object(body), limits))
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


def is_image(media: str, body: bytes) -> bool:
    """Whether a body is one image's bytes: so its type says, or, where curl chose the type, so do the bytes."""
    if media == "application/x-www-form-urlencoded":
        return signature(body) is not None
    return media.startswith("image/") or media in ("", "application/octet-stream")


def query_parameters(query: bytes, kind: type[Asked]) -> Asked:
    """What the URL asks for."""
    text = query.decode("latin-1")
    if text.count("&") >= MOST_PARAMETERS:
        raise ParameterInvalid(
            f"the URL has more than {MOST_PARAMETERS} parameters",
            fix="send each parameter once: see /docs",
            field="query",
            limit=MOST_PARAMETERS,
        )
    return from_strings(kind, parse_qsl(text, keep_blank_values=True) if text else ())


def _from_form(body: bytes, content_type: str, kind: type[Asked], limits: Limits) -> tuple[list[Incoming], Asked]:
    form = parse_form(body, content_type, limits.images)
    for name in form.names:
        if name not in FILES:
            raise ParameterInvalid(
                f"a file in the field {name!r}", fix="name it images: curl -F images=@a.jpg", field=name, value=name
            )
    return list(form.files), from_strings(kind, form.parameters)


def from_object(kind: type[Asked], given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Asked]:
    """The images and the parameters of a JSON object."""
    if "images" not in given:
        raise ParameterInvalid("the body has no images", fix='send {"images": ["<base64>", …]}', field="images")
    listed = given.pop("images")
    if not isinstance(listed, list):
        raise ParameterInvalid(
            "images is not a list", fix='send {"images": ["<base64>", …]}', field="images", value=type(listed).__name__
        )
    return images_from(listed, "images", limits), from_json(kind, given)


def error_body(error: NonnegError, request_id: str) -> Failure:
    """The body of an error: what, where, with which value and limit, and how to fix it."""
    return {"error": cast(ErrorDetail, error.body()), "request_id": request_id}
