"""Documents written from the code: OpenAPI, when it is first read, and docs/settings.md."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from nonneg_core import errors
from nonneg_core.errors import NonnegError
from nonneg_server.api import DIALECTS
from nonneg_server.api.route import Dialect, Operation, Route, Schema, flat, query_parameters
from nonneg_server.observation.server_metrics import METRICS
from nonneg_server.startup.server_settings import Settings, flag, group_of, metavar_of, variable
from nonneg_server.startup.setting_sources import shown_default

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
ANSWER_HEADERS: dict[str, str] = {
    "X-Request-Id": "The client's, or one made here.",
    "X-Total-Time": "Milliseconds from the request's headers to the answer's.",
    "X-Fingerprint": "Which vectors these are.",
    "X-Queue-Time": "Milliseconds the longest of the request's images waited.",
    "X-Decode-Time": "Milliseconds of decoding, summed over the images.",
    "X-Inference-Time": "Milliseconds of inference, summed over the images.",
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return FastAPI's document of the routes, filled in with what they say of themselves."""
    specification: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    types = {
        kind
        for dialect, _, operation in operations()
        for kind in (operation.answer, _failure_of(dialect, operation))
        if kind
    }
    adapters = [(kind, "serialization", TypeAdapter(kind)) for kind in types]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=_WHERE)  # type: ignore[arg-type]
    specification["components"] = {"schemas": dict(sorted(definitions["$defs"].items()))}
    shapes = {kind: schema for (kind, _), schema in schemas.items()}
    for dialect, route, operation in operations():
        for method in route.methods or ():
            slot = specification["paths"][route.path_format][method.lower()]
            slot["parameters"] = [*map(_in_path, route.param_convertors), *query_parameters(operation.query)]
            _fill(slot, dialect, operation, shapes)
    return specification


def operations() -> Iterator[tuple[Dialect, Route, Operation]]:
    """Yield every documented route, with its dialect and what it says of itself."""
    for dialect in DIALECTS:
        for route in dialect.routes:
            if isinstance(route, Route) and route.operation is not None:
                yield dialect, route, route.operation


def _fill(slot: dict[str, Any], dialect: Dialect, operation: Operation, shapes: dict[Any, Schema]) -> None:
    """Fill in one operation's body, parameters and answers."""
    if operation.body is not None:
        slot["requestBody"] = operation.body()
    if operation.guests:
        of_json = slot["requestBody"]["content"]["application/json"]["schema"]
        of_json["anyOf"] += [flat(one.guest.body) for one in DIALECTS if one.guest]
    content = dict(operation.others)
    if operation.answer is not None:
        content = {"application/json": {"schema": shapes[operation.answer], "example": operation.example}, **content}
    shown = list(ANSWER_HEADERS.items())[: 2 if operation.body is None else None]
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in shown}
    slot["responses"] = {"200": {"description": _described(operation), "headers": headers, "content": content}}
    shape = shapes[_failure_of(dialect, operation)]
    for kind in _READING if operation.body is None else _WORK:
        slot["responses"][str(kind.status)] = _failure(dialect, shape, _types_with(kind.status))
    slot["responses"]["default"] = _failure(dialect, shape, "Any other failure.")


def _failure_of(dialect: Dialect, operation: Operation) -> Any:
    """Return the type of a route's errors: its dialect's, or one of its guests'."""
    guests = [one.failure for one in DIALECTS if one.guest] if operation.guests else []
    return reduce(or_, guests, dialect.failure)


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _failure(dialect: Dialect, shape: Schema, description: str) -> Schema:
    example = dialect.error_body(_EXAMPLE, "5f0c…")
    content = {"application/json": {"schema": shape, "example": example}}
    return {"description": description, "content": content}


def _types_with(status: int) -> str:
    """Return the types of error that have this status."""
    return ", ".join(sorted(name for name, kind in errors.BY_TYPE.items() if kind.status == status))


def _described(operation: Operation) -> str:
    """Return the answer in a line."""
    doc = operation.says or getattr(operation.answer, "__doc__", None) or operation.answer.__name__
    return str(doc).strip().partition("\n")[0]


_DESCRIPTION = """\
Images in; vectors out that are non-negative, sparse and can be shortened: `dimensions=k` keeps the k best of the
model's dimensions, `top_k=m` each vector's m largest of those, then they are divided by their length.

Every error names the field, the value, the limit and the fix. Unknown parameters are refused, never ignored.
The routes under `/v1` speak OpenAI's dialect, `/v2/embed` Cohere's, the rest of `/v2` KServe's; `/embed` with `inputs`,
`/embed_sparse`, `/health` and `/info` speak TEI's.
"""


# docs/settings.md, written from the settings and metrics themselves.

SETTINGS_HEAD = """# Settings and metrics of `nonneg serve`

Made by `python -m nonneg_server.startup.documents > docs/settings.md`; a test keeps it true.

Every setting is a flag, an environment variable, and a line in a TOML file (`--config`), under its name with
underscores: `--max-images 8`, `NONNEG_MAX_IMAGES=8`, `max_images = 8`. A flag goes before a variable, a variable
before the file.
"""


def settings_page() -> str:
    """Return the whole page."""
    groups: dict[str, list[str]] = {}
    for name, field in Settings.model_fields.items():
        groups.setdefault(group_of(field), []).append(_setting_row(name, field))
    parts = [SETTINGS_HEAD]
    for group, rows in groups.items():
        parts.append(f"\n## {group}\n\n| flag | variable | default | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    metrics = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in METRICS.items())
    parts.append(
        "\n## Metrics\n\n`GET /metrics`, in Prometheus's text format; counters end in `_total`. Beside these the "
        f"process's own (`process_…`, `python_…`).\n\n| metric | |\n|---|---|\n{metrics}\n"
    )
    return "".join(parts)


def _setting_row(name: str, field: FieldInfo) -> str:
    metavar = metavar_of(field)
    shown = f"`{flag(name)}{' ' + metavar if metavar else ''}`"
    default = shown_default(field).removeprefix("; default: ")
    description = (field.description or "").replace("|", "\\|")
    return f"| {shown} | `{variable(name)}` | {f'`{default}`' if default else ''} | {description} |"


if __name__ == "__main__":
    print(settings_page(), end="")  # noqa: T201
