"""The native request: whatever form it came in, the images and the parameters."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel
from starlette.requests import Request

from nonneg_client.errors import MediaUnsupported, ParameterInvalid, RequestInvalid
from nonneg_server.body import read_body
from nonneg_server.images import Incoming, image_from
from nonneg_server.multipart import parse_form
from nonneg_server.parameters import from_json, from_strings, merged

Asked = TypeVar("Asked", bound=BaseModel)
FILES = ("images", "images[]", "image", "file", "files")  # the names a form's files may have


async def read_request(request: Request, kind: type[Asked]) -> tuple[list[Incoming], Asked]:
    """The images and the parameters of multipart, raw bytes or JSON, by the Content-Type."""
    query = query_parameters(request, kind)
    content_type = request.headers.get("content-type", "")
    body = await read_body(request, request.app.state.settings.max_body)
    media = content_type.partition(";")[0].strip().lower()
    if media.startswith("image/") or media in ("", "application/octet-stream"):
        return [body], query
    if media == "multipart/form-data":
        images, parameters = _from_form(body, content_type, kind)
    elif media == "application/json":
        images, parameters = _from_object(json_object(body), kind)
    else:
        raise MediaUnsupported(
            f"a body of {media!r} is not understood",
            fix="send image/*, multipart/form-data or application/json",
            field="content-type",
            value=media,
        )
    return images, merged(query, parameters)


def query_parameters(request: Request, kind: type[Asked]) -> Asked:
    """What the URL asks for."""
    text = request.scope["query_string"].decode("latin-1")
    return from_strings(kind, parse_qsl(text, keep_blank_values=True) if text else ())


def _from_form(body: bytes, content_type: str, kind: type[Asked]) -> tuple[list[Incoming], Asked]:
    form = parse_form(body, content_type)
    for name in form.names:
        if name not in FILES:
            raise ParameterInvalid(
                f"a file in the field {name!r}", fix="name it images: curl -F images=@a.jpg", field=name, value=name
            )
    return list(form.files), from_strings(kind, form.parameters)


def _from_object(given: dict[str, Any], kind: type[Asked]) -> tuple[list[Incoming], Asked]:
    if "images" not in given:
        raise ParameterInvalid("the body has no images", fix='send {"images": ["<base64>", …]}', field="images")
    listed = given.pop("images")
    if not isinstance(listed, list):
        raise ParameterInvalid(
            "images is no list", fix='send {"images": ["<base64>", …]}', field="images", value=type(listed).__name__
        )
    return [image_from(entry, f"images[{i}]") for i, entry in enumerate(listed)], from_json(kind, given)


def json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestInvalid(f"the body is not JSON ({error})", fix="send one JSON object in UTF-8") from None
    if not isinstance(given, dict):
        raise RequestInvalid("the body is JSON but no object", fix="send one JSON object: see /docs")
    return given


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object of a request in another dialect, where JSON is the only form."""
    return json_object(await read_body(request, request.app.state.settings.max_body))
