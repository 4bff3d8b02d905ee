"""What a route says of itself in the OpenAPI document; the document is made of it when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

Schema = dict[str, Any]
Endpoint = TypeVar("Endpoint", bound=Callable[..., object])

FINGERPRINT = "9e3ce24a107dceea4a819aea528c5018"  # of the examples
PIXEL = (  # a PNG of one orange pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP438AAAAQBAYD718vxAAAAAElFTkSuQmCC"
)
URI = f"data:image/png;base64,{PIXEL}"
BINARY: Schema = {"schema": {"type": "string", "format": "binary"}}
LENGTHS: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8}){0,31}$"},
    ]
}


@with_config(ConfigDict(extra="forbid"))
class Shape(TypedDict):
    """An answer of exactly these keys; orjson writes it, and nothing is checked then."""


@dataclass(frozen=True)
class Operation:
    """What a route takes and answers."""

    answer: Any = None  # the type of its JSON; None where there is none
    example: Any = None
    body: Callable[[], Schema] | None = None
    query: type[BaseModel] | None = None
    others: Schema = field(default_factory=dict)  # further media types of the answer
    says: str | None = None  # of the answer; without it, its type's first line
    failure: Any = None  # the type of its errors; without it, its dialect's
    headers: Schema = field(default_factory=dict)  # that a request must have, with an example of each


def documented(
    answer: Any = None,
    example: Any = None,
    *,
    body: Callable[[], Schema] | None = None,
    query: type[BaseModel] | None = None,
    others: Schema | None = None,
    says: str | None = None,
    failure: Any = None,
    headers: Schema | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Note on an endpoint what it takes and answers."""

    def note(endpoint: Endpoint) -> Endpoint:
        vars(endpoint)["operation"] = Operation(
            answer, example, body, query, others or {}, says, failure, headers or {}
        )
        return endpoint

    return note


def json_body(kind: type[BaseModel], example: Schema, **others: Schema) -> Callable[[], Schema]:
    """Make the request body of a model: JSON, and what else is taken."""
    return lambda: body({"application/json": {"schema": flat(kind), "example": example}, **others})


def body(contents: Schema) -> Schema:
    """Return a request body of these media types."""
    return {"required": True, "content": contents}


def query_parameters(kind: type[BaseModel] | None) -> list[Schema]:
    """Return the model's fields as query parameters."""
    fields = {} if kind is None else flat(kind)["properties"]
    return [{"name": name, "in": "query", **parameter(name, schema)} for name, schema in fields.items()]


def flat(kind: Any) -> Schema:
    """Return a type's JSON schema with nothing to look up elsewhere."""
    schema = TypeAdapter(kind).json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return resolved(definitions[part["$ref"].rpartition("/")[2]])
            return {key: resolved(value) for key, value in part.items() if key != "title" or not isinstance(value, str)}
        return [resolved(entry) for entry in part] if isinstance(part, list) else part

    found: Schema = resolved(schema)
    return found


def parameter(name: str, schema: Schema) -> Schema:
    """Return a field as a parameter: its description apart, and no null, which a URL or a form cannot say."""
    said = {"description": schema.get("description", "")}
    arms = schema.get("anyOf", [])
    if name == "dimensions" and any(arm.get("type") == "array" for arm in arms):
        return {**said, "schema": LENGTHS}
    kept = {key: value for key, value in schema.items() if key not in ("description", "anyOf")}
    if kept.get("default", 0) is None:
        del kept["default"]
    first: Schema = next((arm for arm in arms if arm != {"type": "null"}), {})
    return {**said, "schema": {**kept, **first}}
