"""The parameters of requests: one name and one meaning in query, form and JSON, in every route."""

import difflib
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nonneg_core.errors import JsonScalar, ParameterInvalid
from nonneg_vectors.expressions.expression_parser import MOST_CHARACTERS

Body = TypeVar("Body", bound=BaseModel)

MAX_LENGTHS = 32
MAX_FIELDS = 64  # of a JSON object
PositiveCount = Annotated[int, Field(ge=1)]
Lengths = Annotated[list[PositiveCount], Field(min_length=1, max_length=MAX_LENGTHS)]


ModelName = Annotated[
    str | None,
    Field(description="A served model's name, or NAME@FINGERPRINT to take no other; without it, the default one."),
]
Errors = Annotated[
    Literal["item", "fail"],
    Field(description="item: a bad image has its error in its place; fail: it fails the request."),
]


class Parameters(BaseModel):
    """What a client may ask for; anything else is refused, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelName = None
    dimensions: Annotated[
        PositiveCount | Lengths | None,
        Field(description="Keep this many of the model's dimensions, 1 to all of them; several: a list, or 512,128."),
    ] = None
    top_k: Annotated[PositiveCount | None, Field(description="Of those, keep each vector's largest this many.")] = None
    normalize: Annotated[bool, Field(description="Divide what is left by its L2 norm.")] = True
    format: Annotated[
        Literal["sparse", "dense", "both"], Field(description="Indices and values, or every number, or both.")
    ] = "sparse"
    encoding: Annotated[
        Literal["float", "base64", "float16", "int8", "binary", "compact"],
        Field(
            description="float: JSON numbers, float32 elsewhere; base64: the same as little-endian float32 in base64; "
            "float16 and int8 (value = number * scale): base64 in JSON, raw elsewhere. As `packed`: compact, indices "
            "and values in about a byte an active dimension; binary, the model's 1,280 bits or the first `dimensions`."
        ),
    ] = "float"
    errors: Errors = "item"
    truncate: Annotated[bool, Field(description="Of a text that is too long, read the first words.")] = False


class Comparison(BaseModel):
    """What a client of /explain may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelName = None
    dimensions: Annotated[PositiveCount | None, Field(description="Compare at this length.")] = None
    top_k: Annotated[PositiveCount | None, Field(description="Compare each vector's largest this many.")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="Dimensions to list; the rest is summed.")] = 20
    where: Annotated[
        bool, Field(description="Say where in each image a dimension comes from, for models whose features are means.")
    ] = False


class Search(BaseModel):
    """What a client of /search may ask for besides what is looked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    k: Annotated[int, Field(ge=1, le=1000, description="Hits to answer, at most.")] = 10
    where: Annotated[
        dict[str, Any] | None,
        Field(description='Conditions on the payload: {"price": {"lt": 30}, "brand": ["Acme", "Bee"]}. In JSON alone.'),
    ] = None
    without: Annotated[
        list[Annotated[int, Field(ge=0)]], Field(max_length=64, description="Dimensions that no hit may have.")
    ] = Field(default_factory=list)
    exclude: Annotated[list[str], Field(max_length=1000, description="Ids that are not wanted. In JSON alone.")] = (
        Field(default_factory=list)
    )
    exact: Annotated[bool, Field(description="Compare with every photo, and not with candidates alone.")] = False
    reasons: Annotated[bool, Field(description="Say which dimensions make each score.")] = True
    matches_only: Annotated[bool, Field(description="End the list where random photos may score as much.")] = False


class Listing(BaseModel):
    """Which of a model's dimensions to list, in which order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sort: Annotated[
        Literal["dimension", "name", "frequency", "evidence"],
        Field(description="By place, by name, the most frequent first, or the best evidence first."),
    ] = "dimension"
    named: Annotated[bool, Field(description="Only dimensions that have a name.")] = False
    contains: Annotated[
        str | None, Field(max_length=100, description="Only names, common ones too, with this text in them.")
    ] = None
    evidence: Annotated[
        Literal["precision", "rank"] | None,
        Field(description="Only names with a measured precision, or with the rank of a photo that was held out."),
    ] = None
    offset: Annotated[int, Field(ge=0, le=1_000_000, description="Leave out so many, which are on pages before.")] = 0
    limit: Annotated[int, Field(ge=1, le=1000, description="Dimensions of this page.")] = 100


def from_strings(kind: type[Body], pairs: Iterable[tuple[str, str]]) -> Body:
    """Return parameters of a query or a form, where every value is text."""
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in given:
            raise ParameterInvalid(f"{name} is given twice", fix="give it once", field=name, value=value)
        given[name] = _from_string(kind, name, value)
    return from_json(kind, given)


def _from_string(kind: type[BaseModel], name: str, value: str) -> Any:
    """Read what the text plainly stands for: 12, 512,128, true; anything else stays text, and is refused."""
    sort = _sorts(kind).get(name)
    if sort is None:
        return value
    if sort is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if "," in value:
        return [_number(part) for part in value.split(",")]
    return _number(value)


@cache
def _sorts(kind: type[BaseModel]) -> dict[str, type]:
    """Return which fields are yes or no and which are numbers; all others are text."""
    texts = (str, str | None)
    fields = {name: field.annotation for name, field in kind.model_fields.items()}
    return {name: bool if annotation is bool else int for name, annotation in fields.items() if annotation not in texts}


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text


def from_json(kind: type[Body], given: dict[str, Any]) -> Body:
    """Return a JSON object, where a number is a number, as the model it should be."""
    if len(given) > MAX_FIELDS:  # of which each unknown one would be an error of its own
        raise ParameterInvalid(
            f"{len(given)} parameters at once, more than the limit of {MAX_FIELDS}",
            fix="send those that /docs shows",
            field="body",
            value=len(given),
            limit=MAX_FIELDS,
        )
    try:
        return kind.model_validate(given, strict=True)
    except ValidationError as error:
        raise explained(error, kind) from None


def merged(query: Body, body: Body) -> Body:
    """Return both together; a parameter may stand in one of the two only."""
    if not query.model_fields_set:
        return body
    for name in sorted(query.model_fields_set & body.model_fields_set):
        raise ParameterInvalid(
            f"{name} is given in the query and in the body",
            fix="give it once",
            field=name,
            value=_shown(getattr(body, name)),
        )
    return query.model_copy(update={name: getattr(body, name) for name in body.model_fields_set})


def explained(error: ValidationError, kind: type[BaseModel]) -> ParameterInvalid:
    """Return the first thing pydantic found, as our error: field, value, limit and fix."""
    first = error.errors()[0]
    field = _path(first["loc"])
    value, context = first["input"], first.get("ctx", {})
    limit: JsonScalar = next((context[key] for key in ("ge", "le", "gt", "lt", "max_length") if key in context), None)
    shown = _shown(value)
    if first["type"] == "missing":
        return ParameterInvalid(f"{field} is missing", fix=f"give {field}", field=field)
    if first["type"] == "extra_forbidden":
        return _unknown(field or "", shown, list(kind.model_fields))
    return ParameterInvalid(
        f"{field}={shown!r}: {first['msg']}",
        fix=_fix(first["type"], context, field),
        field=field,
        value=shown,
        limit=limit,
    )


def _shown(value: Any) -> JsonScalar:
    """Return a value as an error can carry it."""
    if isinstance(value, str):
        return value[:200]
    return value if isinstance(value, (int, float, bool)) or value is None else repr(value)[:200]


def _path(loc: tuple[int | str, ...]) -> str | None:
    """Return `inputs[0].shape` for ("inputs", 0, "shape"); pydantic's names for the arms of a union are left out."""
    if not loc:
        return None
    path = str(loc[0])
    for part in loc[1:]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part not in ("int", "str", "bool", "float"):
            path += f".{part}"
    return path


def _fix(kind: str, context: dict[str, Any], field: str | None) -> str:
    if "expected" in context:
        return f"choose {context['expected']}"
    if "ge" in context:
        return f"ask for at least {context['ge']} or omit it"
    if kind.startswith(("int", "bool", "string", "float")):
        return f"give {field} as the type it has: see /docs"
    return "see /docs for what is understood"


def _unknown(name: str, value: JsonScalar, known: list[str]) -> ParameterInvalid:
    close = difflib.get_close_matches(name[:100], known, n=1)  # it reads every character, in Python
    hint = f"did you mean {close[0]}? " if close else ""
    return ParameterInvalid(
        f"parameter {name!r} is not known", fix=f"{hint}Known: {', '.join(known)}".strip(), field=name, value=value
    )


# What a client of /studio/… may ask for: names and meanings as everywhere else.

DimensionNumber = Annotated[int, Field(ge=0)]
Several = DimensionNumber | Annotated[list[DimensionNumber], Field(min_length=1, max_length=64)] | None


class Sized(BaseModel):
    """At which length."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimensions: Annotated[PositiveCount | None, Field(description="Use this many of the model's dimensions.")] = None
    top_k: Annotated[PositiveCount | None, Field(description="Of those, each vector's largest this many.")] = None


class Paged(BaseModel):
    """Which part of a list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: Annotated[int, Field(ge=1, le=500, description="So many.")] = 60
    offset: Annotated[int, Field(ge=0, description="From this place on.")] = 0


Conditions = Annotated[
    str | None,
    Field(max_length=1000, description="`taken>=2024-05-31; camera=D90; tag=beach`: all must hold, as for --where."),
]


class Listed(Paged):
    """Photos by name."""

    where: Conditions = None

    name: Annotated[str | None, Field(description="Only the one that has this path within the folder.")] = None


class Searched(Sized):
    """A search of the indexed folder."""

    expression: Annotated[
        str | None,
        Field(
            max_length=MOST_CHARACTERS,
            description="`winter/cat.jpg + 2*dim:goldfish !dim:17`, as POST /query takes it; photos by their path in "
            "the folder, or by the id of an upload.",
        ),
    ] = None
    only: Annotated[Several, Field(description="In which all of these are active.")] = None
    tenth: Annotated[bool, Field(description="As if only each stored vector's largest tenth had been kept.")] = False
    where: Conditions = None
    limit: Annotated[int, Field(ge=1, le=500, description="Hits to answer.")] = 60
    offset: Annotated[int, Field(ge=0, description="From this hit on.")] = 0


class ComparedPair(Sized):
    """Two photos side by side."""

    a: Annotated[str, Field(description="A photo's id.")]
    b: Annotated[str, Field(description="Another's.")]
    limit: Annotated[int, Field(ge=1, le=200, description="Dimensions to list of each kind.")] = 12


class LocatedDimension(BaseModel):
    """Where a dimension comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: Annotated[DimensionNumber, Field(description="Of this dimension.")]


class Bars(Sized):
    """One photo's dimensions."""

    limit: Annotated[int, Field(ge=1, le=2048, description="Dimensions to list.")] = 24
    named: Annotated[bool, Field(description="Only those that have a name.")] = False


class Dropped(Bars):
    """A photo from outside, and its dimensions."""

    name: Annotated[str, Field(max_length=200, description="What its file is called.")] = ""


Named = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^;,=<>!\x00-\x1f]+$")]
PhotoIds = Annotated[list[str], Field(min_length=1, max_length=200_000)]


class Mark(BaseModel):
    """A tag or an album that photos are given, or that is taken from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[Literal["tag", "album"], Field(description="Which of the two.")] = "tag"
    name: Named
    photos: PhotoIds
    on: Annotated[bool, Field(description="false: take it from them.")] = True


class DimensionName(BaseModel):
    """The user's own name of a dimension."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: DimensionNumber
    name: Named | None = None


class SavedSearch(BaseModel):
    """A search under a name: what the page's address holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Named
    address: Annotated[str | None, Field(max_length=4000, description="null: forget it.")] = None


class Export(BaseModel):
    """Selected photos for other programs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    photos: PhotoIds
    form: Annotated[Literal["csv", "paths", "xmp", "copy"], Field(description="What becomes of them.")]
    to: Annotated[str, Field(max_length=1000, description="The folder that photos are copied into.")] = ""


class Typed(BaseModel):
    """The last word of a search that is being typed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[str, Field(max_length=200, description="What it begins with.")] = ""


def several(given: int | list[int] | None) -> list[int]:
    """Return a parameter that may be one number or a list of them, as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, int) else given
