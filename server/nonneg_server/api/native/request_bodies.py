"""The native API's request bodies for the OpenAPI document, made from the models that check them."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import BaseModel, Field

from nonneg_server.answers import as_arrow, as_msgpack, as_npy
from nonneg_server.api.openapi import BINARY, PIXEL, Schema, Shape, body, flat, parameter
from nonneg_server.requests.parameters import Parameters

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
