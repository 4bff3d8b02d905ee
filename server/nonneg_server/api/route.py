"""What routes and APIs say of themselves: whether a route embeds or tells health, its OpenAPI operation, its API."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config
from starlette.responses import Response
from starlette.routing import BaseRoute, request_response
from typing_extensions import TypedDict

from nonneg_core.errors import NonnegError

Schema = dict[str, Any]
Endpoint = TypeVar("Endpoint", bound=Callable[..., object])

# An example of each answer, as the OpenAPI document shows it.
EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("answer_examples.json").read_text(encoding="utf-8"))
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
    guests: bool = False  # whether it also takes the bodies of other dialects' guests, and answers with their errors


def documented(
    answer: Any = None,
    example: Any = None,
    *,
    body: Callable[[], Schema] | None = None,
    query: type[BaseModel] | None = None,
    others: Schema | None = None,
    says: str | None = None,
    guests: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Note on an endpoint what it takes and answers."""

    def note(endpoint: Endpoint) -> Endpoint:
        vars(endpoint)["operation"] = Operation(answer, example, body, query, others or {}, says, guests)
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

    inlined: Schema = resolved(schema)
    return inlined


def parameter(name: str, schema: Schema) -> Schema:
    """Return a field as a parameter: its description apart, and no null, which a URL or a form cannot say."""
    preamble = {"description": schema.get("description", "")}
    arms = schema.get("anyOf", [])
    if name == "dimensions" and any(arm.get("type") == "array" for arm in arms):
        return {**preamble, "schema": LENGTHS}
    rest = {key: value for key, value in schema.items() if key not in ("description", "anyOf")}
    if rest.get("default", 0) is None:
        del rest["default"]
    first: Schema = next((arm for arm in arms if arm != {"type": "null"}), {})
    return {**preamble, "schema": {**rest, **first}}


# What a route says of itself, so that no list of paths has to: whether it embeds, and whether it tells health.


class Route(APIRoute):
    """A route whose endpoint takes the request and nothing else: FastAPI has nothing to inject, and is not asked to."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = request_response(endpoint)

    @property
    def embeds(self) -> bool:
        """Whether what is sent goes through the queue, so that a full one refuses it before its body."""
        return getattr(self.endpoint, "embeds", False)

    @property
    def operation(self) -> Operation | None:
        """What it says of itself in the OpenAPI document."""
        return getattr(self.endpoint, "operation", None)

    @property
    def tells_health(self) -> bool:
        """Whether it is answered without a key, and while models load."""
        return getattr(self.endpoint, "tells_health", False)

    @property
    def is_open(self) -> bool:
        """Whether it is answered without a key: health, and files that hold no data."""
        return self.tells_health or getattr(self.endpoint, "open_to_all", False)


def embedding(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that embeds the images it is sent."""
    vars(endpoint)["embeds"] = True
    return endpoint


def health(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that tells how the server is."""
    vars(endpoint)["tells_health"] = True
    return endpoint


def open_to_all(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that is answered without a key: the files of the page that asks for one."""
    vars(endpoint)["open_to_all"] = True
    return endpoint


def json_response(content: Any) -> Response:
    """Return what is not an answer to images, as JSON."""
    return Response(orjson.dumps(content), media_type="application/json")


class RouteTable:
    """Finds a route before the application does."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._known = {(method, route.path): route for route in self._routes for method in route.methods or ()}

    def find(self, method: str, path: str) -> Route | None:
        """Return the route of a path, the one that answers the method if there are several."""
        known = self._known.get((method, path))  # the path of one without parameters is its own template
        if known is not None:
            return known
        matches = [route for route in self._routes if route.path_regex.match(path)]
        return next((route for route in matches if method in (route.methods or ())), next(iter(matches), None))


# One record for each API: its routes, its paths, the body of its errors.

ErrorBody = Callable[[NonnegError, str], Mapping[str, Any]]  # of an error and the request's id


@dataclass(frozen=True)
class Guest:
    """How a dialect reads and answers POST /embed, which it shares with the native API."""

    claims: Callable[[dict[str, Any]], bool]  # whether a JSON body is this dialect's
    body: type[BaseModel]
    read: Callable[..., Any]  # of the body and the limits: images and parameters
    write: Callable[..., bytes]  # of the answer
    field: str  # what it calls its images


@dataclass(frozen=True, eq=False)
class Dialect:
    """An API. Each route itself declares whether it embeds and whether it is open without a key."""

    name: str
    prefixes: tuple[str, ...]  # of its paths, those that do not exist included
    error_body: ErrorBody
    failure: Any  # the type of that body
    routes: tuple[BaseRoute, ...]
    guest: Guest | None = None
