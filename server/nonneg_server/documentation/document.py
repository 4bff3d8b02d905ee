"""The OpenAPI document, made when it is first asked for: starting the server should not wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from nonneg_core import errors
from nonneg_core.errors import NonnegError
from nonneg_server.api.dialect import WRITERS
from nonneg_server.api.native.bodies import Schema
from nonneg_server.documentation.examples import EXAMPLES
from nonneg_server.documentation.operations import Operation, operations

_WHERE = "#/components/schemas/{model}"
_READING: Sequence[type[NonnegError]] = (errors.NotFound, errors.NotReady)
_WORK: Sequence[type[NonnegError]] = (
    errors.RequestInvalid,
    errors.NotFound,
    errors.NotAcceptable,
    errors.RequestTimeout,
    errors.TooLarge,
    errors.ImageUnsupported,
    errors.ParameterInvalid,
    errors.Overloaded,
    errors.NotReady,
    errors.DeadlineExceeded,
)
_EXAMPLE = errors.ParameterInvalid(
    "dimensions=900 exceeds this model's 512",
    fix="ask for at most 512 or omit it",
    field="dimensions",
    value=900,
    limit=512,
)
HEADERS: dict[str, str] = {
    "X-Request-Id": "The client's, or one made here.",
    "X-Total-Time": "Milliseconds from the request's first byte to the answer's.",
    "X-Fingerprint": "Which vectors these are.",
    "X-Queue-Time": "Milliseconds the longest of the request's images waited.",
    "X-Decode-Time": "Milliseconds of decoding, summed over the images.",
    "X-Inference-Time": "Milliseconds of inference, summed over the images.",
}


def document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document of the routes, filled in from the table of operations."""
    found: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    table = operations()
    models = {model for operation in table.values() for model in (operation.answer, operation.failure) if model}
    inputs = sorted(((model, "serialization") for model in models), key=lambda pair: pair[0].__name__)
    _, definitions = models_json_schema(inputs, ref_template=_WHERE)  # type: ignore[arg-type]
    found["components"] = {"schemas": definitions["$defs"]}
    for (method, path), operation in table.items():
        _fill(found["paths"][path][method.lower()], operation)
    return found


def _fill(slot: dict[str, Any], operation: Operation) -> None:
    """One operation's body, parameters and answers."""
    if operation.body is not None:
        slot["requestBody"] = operation.body
    slot["parameters"] = [*slot.get("parameters", []), *operation.query]
    content = dict(operation.others)
    if operation.answer is not None:
        shape = {"schema": _ref(operation.answer.__name__), "example": EXAMPLES[operation.answer]}
        content = {"application/json": shape, **content}
    shown = list(HEADERS.items())[: 2 if operation.body is None else None]
    headers = {name: {"description": said, "schema": {"type": "string"}} for name, said in shown}
    slot["responses"] = {"200": {"description": _first_line(operation.answer), "headers": headers, "content": content}}
    for kind in _READING if operation.body is None else _WORK:
        slot["responses"][str(kind.status)] = _failure(operation, _types_with(kind.status))
    slot["responses"]["default"] = _failure(operation, "Any other failure.")


def _failure(operation: Operation, description: str) -> Schema:
    body = WRITERS[operation.dialect](_EXAMPLE, "5f0c…")
    content = {"application/json": {"schema": _ref(operation.failure.__name__), "example": body}}
    return {"description": description, "content": content}


def _types_with(status: int) -> str:
    """The types of error that have this status."""
    return ", ".join(sorted(name for name, kind in errors.BY_TYPE.items() if kind.status == status))


def _first_line(model: type[Any] | None) -> str:
    if model is None:
        return "A picture."
    return (model.__doc__ or model.__name__).strip().partition("\n")[0]


def _ref(name: str) -> Schema:
    return {"$ref": _WHERE.format(model=name)}


_DESCRIPTION = """\
Images in; vectors out that are non-negative, sparse and can be shortened: `dimensions=k` keeps the k best of the
model's dimensions, `top_k=m` each vector's m largest of those, then they are divided by their length.

Every error names the field, the value, the limit and the fix. Unknown parameters are refused, never ignored.
The routes under `/v1` speak OpenAI's dialect, `/v2/embed` Cohere's, the rest of `/v2` KServe's, `/info` TEI's.
"""
