"""The native request: whatever form it came in, images and parameters; and its bodies for the OpenAPI document."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NotRequired, TypeVar, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel, Field
from starlette.requests import Request

from nonneg_core.errors import MediaUnsupported, NonnegError, ParameterInvalid
from nonneg_core.pixels.identify import signature
from nonneg_server.api.native_answers import ErrorAnswer, ErrorDetail
from nonneg_server.api.route import BINARY, PIXEL, Schema, Shape, body, flat, parameter
from nonneg_server.pipeline.answer_forms import as_arrow, as_msgpack, as_npy
from nonneg_server.requests.bodies import json_object, parse_form, parse_in_thread, read_body
from nonneg_server.requests.inputs import Incoming, Limits, check_count, each, image_from, input_from, sized, text_from
from nonneg_server.requests.parameters import Parameters, from_json, from_strings, merged

P = TypeVar("P", bound=BaseModel)
FILES = ("images", "images[]", "image", "file", "files")  # the names a form's files may have

LISTS = {
    "images": 'send {"images": ["<base64>", …]}',
    "texts": 'send {"texts": ["a dog", …]}',
    "inputs": 'send {"inputs": [{"image": "<base64>"}, {"text": "a dog"}, …]}',
}
MOST_PARAMETERS = 64  # of one URL
CURLS = "application/x-www-form-urlencoded"  # what curl calls a body where no type was given


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
    media, limits = media_of(content_type), request.app.state.settings.limits
    if is_image(media, body):
        return [sized(body, limits)], query
    if media == "multipart/form-data":
        images, parameters = _from_form(body, content_type, kind, limits)
    elif media == "application/json":
        images, parameters = await parse_in_thread(body, lambda: read(json_object(body), limits))
    else:
        curl = media == CURLS
        raise MediaUnsupported(
            f"the body, {len(body)} bytes, is not an image" if curl else f"a body of {media!r} is not understood",
            fix="check the file behind @: curl --data-binary @photo.jpg"
            if curl
            else "send image/*, multipart/form-data or application/json",
            field="content-type",
            value=media,
        )
    return images, merged(query, parameters)


def media_of(content_type: str) -> str:
    """Return the media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_image(media: str, body: bytes) -> bool:
    """Return whether a body is one image's bytes: so its type says, or, where curl chose the type, so do the bytes."""
    if media == CURLS:
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
    if not form.files:
        check_count(0, limits.images)
    return [sized(file, limits) for file in form.files], from_strings(kind, form.parameters)


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
    parameters = from_json(kind, given)
    truncate = getattr(parameters, "truncate", False)
    if field == "images":
        return each(listed, field, limits, image_from), parameters
    read = text_from if field == "texts" else input_from
    return each(listed, field, limits, read, truncate=truncate), parameters


def is_mixed(given: dict[str, Any]) -> bool:
    """Return whether `inputs` are ours: objects that say which of them are images and which are texts."""
    entries = given.get("inputs")
    return isinstance(entries, list) and any(isinstance(entry, dict) and "text" in entry for entry in entries)


def error_body(error: NonnegError, request_id: str) -> ErrorAnswer:
    """Return the body of an error: what, where, with which value and limit, and how to fix it."""
    return {"error": cast(ErrorDetail, error.body()), "request_id": request_id}


# The native API's request bodies for the OpenAPI document, made from the models that check them.

FORMS: Schema = {form.MEDIA_TYPE: BINARY for form in (as_msgpack, as_npy, as_arrow)}
IMAGE: Schema = {
    "description": "base64, a data URI, or a URL where the server allows its host; bare or in an object.",
    "anyOf": [{"type": "string"}, {"type": "object"}],
}


def images(kind: type[BaseModel], count: int | None = None) -> Schema:
    """Return an image, a form or JSON; `count` where there must be so many."""
    bounds: Schema = {"minItems": count or 1} if count is None else {"minItems": count, "maxItems": count}
    fields = flat(kind)["properties"]
    whole = {
        "type": "object",
        "required": ["images"],
        "additionalProperties": False,
        "properties": {"images": {"type": "array", "items": IMAGE, **bounds}, **fields},
    }
    strings = {name: parameter(name, schema)["schema"] for name, schema in fields.items()}
    form = {
        **whole,
        "properties": {
            "images": {"type": "array", "items": {"type": "string", "format": "binary"}, **bounds},
            **strings,
        },
    }
    example = {"images": [PIXEL] * (count or 1), "dimensions": 8}
    contents: Schema = {"application/json": {"schema": whole, "example": example}}
    contents["multipart/form-data"] = {"schema": form}
    if count is None:
        contents["image/*"] = BINARY
    return body(contents)


def words(of_images: Schema) -> list[Schema]:
    """Return the same with texts in the place of images, and with both in one order."""
    text: Schema = {"type": "string", "description": "Words that the model knows."}
    objects = [
        {"type": "object", "required": [name], "additionalProperties": False, "properties": {name: schema}}
        for name, schema in (("image", IMAGE), ("text", text))
    ]
    rest = {name: schema for name, schema in of_images["properties"].items() if name != "images"}
    lists = {"texts": text, "inputs": {"anyOf": objects}}
    return [
        {
            **of_images,
            "required": [name],
            "properties": {name: {"type": "array", "items": items, "minItems": 1}, **rest},
        }
        for name, items in lists.items()
    ]


NotNegative = Annotated[float, Field(ge=0)]


class SparseRow(Shape):
    indices: list[Annotated[int, Field(ge=0)]]
    values: list[NotNegative]


class Vectors(Shape):
    vectors: Annotated[list[Annotated[list[NotNegative], Field(min_length=1)] | SparseRow], Field(min_length=1)]
    width: NotRequired[
        Annotated[int | None, Field(ge=1, description="Dimensions that sparse rows have now; without it, the model's.")]
    ]
    fingerprint: NotRequired[Annotated[str | None, Field(description="Refuse vectors of another model.")]]


def vectors() -> Schema:
    """Return stored vectors, dense or sparse, or one .npy."""
    schema = flat(Vectors)
    schema["properties"].update(flat(Parameters)["properties"])
    example = {"vectors": [{"indices": [0, 3, 7], "values": [0.5, 0.25, 0.1]}], "dimensions": 4}
    return body({"application/json": {"schema": schema, "example": example}, "application/x-npy": BINARY})
