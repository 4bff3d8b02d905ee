"""Request bodies and query parameters for the OpenAPI document, made from the models that check them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nonneg_server.api.cohere.translation import EmbedBody
from nonneg_server.api.kserve.translation import InferRequest
from nonneg_server.api.openai.translation import EmbeddingsRequest
from nonneg_server.requests.parameters import Parameters

Schema = dict[str, Any]

PIXEL = (  # a PNG of one orange pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP438AAAAQBAYD718vxAAAAAElFTkSuQmCC"
)
URI = f"data:image/png;base64,{PIXEL}"

IMAGE: Schema = {
    "description": "base64, a data URI, or a URL where the server allows its host; bare or in an object.",
    "anyOf": [{"type": "string"}, {"type": "object"}],
}
_LENGTHS = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8}){0,31}$"},
    ]
}


def query(kind: type[BaseModel]) -> list[Schema]:
    """The model's fields as query parameters."""
    fields = flat(kind)["properties"]
    return [{"name": name, "in": "query", **_parameter(name, dict(schema))} for name, schema in fields.items()]


def flat(kind: type[BaseModel]) -> Schema:
    """The model's JSON schema with nothing to look up elsewhere."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return resolved(definitions[part["$ref"].rpartition("/")[2]])
            return {key: resolved(value) for key, value in part.items() if key != "title" or not isinstance(value, str)}
        return [resolved(entry) for entry in part] if isinstance(part, list) else part

    found: Schema = resolved(schema)
    return found


def body(contents: Schema) -> Schema:
    return {"required": True, "content": contents}


def images(kind: type[BaseModel], count: int | None = None) -> Schema:
    """An image, a form or JSON; `count` where there must be so many."""
    bounds: Schema = {"minItems": count or 1} if count is None else {"minItems": count, "maxItems": count}
    fields = flat(kind)["properties"]
    whole = {
        "type": "object",
        "required": ["images"],
        "additionalProperties": False,
        "properties": {"images": {"type": "array", "items": IMAGE, **bounds}, **fields},
    }
    strings = {name: _parameter(name, dict(schema))["schema"] for name, schema in fields.items()}
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
        contents["image/*"] = {"schema": {"type": "string", "format": "binary"}}
    return body(contents)


_ROW = {
    "anyOf": [
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
        {
            "type": "object",
            "required": ["indices", "values"],
            "additionalProperties": False,
            "properties": {
                "indices": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "values": {"type": "array", "items": {"type": "number", "minimum": 0}},
            },
        },
    ]
}


def vectors() -> Schema:
    """Stored vectors, dense or sparse, or one .npy."""
    schema = {
        "type": "object",
        "required": ["vectors"],
        "additionalProperties": False,
        "properties": {
            "vectors": {"type": "array", "items": _ROW, "minItems": 1},
            "width": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "description": "Dimensions that sparse rows have now; without it, the model's.",
            },
            "fingerprint": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "description": "Refuse vectors of another model.",
            },
            **flat(Parameters)["properties"],
        },
    }
    example = {"vectors": [{"indices": [0, 3, 7], "values": [0.5, 0.25, 0.1]}], "dimensions": 4}
    return body(
        {
            "application/json": {"schema": schema, "example": example},
            "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
        }
    )


def openai() -> Schema:
    example = {"model": "nonneg-lite0", "input": [URI], "dimensions": 8}
    return body({"application/json": {"schema": flat(EmbeddingsRequest), "example": example}})


def cohere() -> Schema:
    example = {"model": "nonneg-lite0", "input_type": "image", "images": [URI], "embedding_types": ["float", "ubinary"]}
    return body({"application/json": {"schema": flat(EmbedBody), "example": example}})


def kserve() -> Schema:
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [PIXEL]}
    example = {"inputs": [tensor], "parameters": {"dimensions": 8}}
    return body(
        {
            "application/json": {"schema": flat(InferRequest), "example": example},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        }
    )


def _parameter(name: str, schema: Schema) -> Schema:
    """Description apart, and no null: a URL or a form cannot say it."""
    description = schema.pop("description", "")
    if name == "dimensions" and any(arm.get("type") == "array" for arm in schema.get("anyOf", [])):
        return {"description": description, "schema": _LENGTHS}
    arms = [arm for arm in schema.pop("anyOf", []) if arm != {"type": "null"}]
    kept = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    return {"description": description, "schema": {**kept, **(arms[0] if arms else {})}}
