"""The native request: whatever form it came in, the images and the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request

from nonneg_client.errors import MediaUnsupported, ParameterInvalid, RequestInvalid
from nonneg_server.body import read_body
from nonneg_server.images import Incoming, image_from
from nonneg_server.multipart import parse_form
from nonneg_server.parameters import DEFAULTS, Parameters, from_json, from_strings, merged
from nonneg_server.settings import Settings


@dataclass(frozen=True)
class EmbedRequest:
    """What is to be embedded and how."""

    images: list[Incoming]
    parameters: Parameters


async def read_request(request: Request, settings: Settings) -> EmbedRequest:
    """Multipart, raw bytes or JSON, by the Content-Type."""
    query = from_strings(request.query_params.multi_items()) if request.scope["query_string"] else DEFAULTS
    content_type = request.headers.get("content-type", "")
    body = await read_body(request, settings.max_body)
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("image/") or kind in ("", "application/octet-stream"):
        return EmbedRequest([body], query)
    if kind == "multipart/form-data":
        images, parameters = _from_form(body, content_type)
    elif kind == "application/json":
        images, parameters = _from_json(body)
    else:
        raise MediaUnsupported(
            f"a body of {kind!r} is not understood",
            fix="send image/*, multipart/form-data or application/json",
            field="content-type",
            value=kind,
        )
    return EmbedRequest(images, merged(query, parameters))


def _from_form(body: bytes, content_type: str) -> tuple[list[Incoming], Parameters]:
    form = parse_form(body, content_type)
    for name in form.names:
        if name not in ("images", "images[]", "image", "file", "files"):
            raise ParameterInvalid(
                f"a file in the field {name!r}", fix="name it images: curl -F images=@a.jpg", field=name, value=name
            )
    return list(form.files), from_strings(form.parameters)


def _from_json(body: bytes) -> tuple[list[Incoming], Parameters]:
    given = json_object(body)
    if "images" not in given:
        raise ParameterInvalid("the body has no images", fix='send {"images": ["<base64>", …]}', field="images")
    listed = given.pop("images")
    if not isinstance(listed, list):
        raise ParameterInvalid(
            "images is no list", fix='send {"images": ["<base64>", …]}', field="images", value=type(listed).__name__
        )
    return [image_from(entry, f"images[{i}]") for i, entry in enumerate(listed)], from_json(given)


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
