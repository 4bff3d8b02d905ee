"""POST /query and /search: an expression of photos, words and dimensions in; weightings, or the nearest photos, out."""

import asyncio
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import ExpressionInvalid, ParameterInvalid
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.api import native_request as native
from nonneg_server.api.native_answers import QueryAnswer, SearchAnswer
from nonneg_server.api.route import (
    BINARY,
    EXAMPLES,
    PIXEL,
    Route,
    Schema,
    body,
    documented,
    embedding,
    flat,
    json_response,
)
from nonneg_server.engine.jobs import Text
from nonneg_server.models.explanation import Queried, queried, query_json
from nonneg_server.models.served_index import index_of, searched
from nonneg_server.pipeline import request_pipeline as pipeline
from nonneg_server.requests.bodies import json_object, parse_in_thread, read_body
from nonneg_server.requests.inputs import Incoming, Limits, Link, check_count, image_from
from nonneg_server.requests.parameters import ModelName, Parameters, PositiveCount, Search, from_json
from nonneg_vectors.expressions.expression import Expression, Photo, Term, Words
from nonneg_vectors.expressions.expression_parser import MOST_CHARACTERS, parse

query_router = APIRouter(route_class=Route, tags=["search"])
Given = dict[Photo | Words, Incoming]  # what an expression names, to be embedded


class Asked(BaseModel):
    """An expression and its photos."""

    expression: Annotated[
        str,
        Field(
            max_length=MOST_CHARACTERS,
            description='`photo.jpg + 2*dim:goldfish - "text" & "dog" !dim:17`: see the docs.',
        ),
    ]
    images: Annotated[
        dict[str, Any], Field(description="The photos by the names that they have in the expression.")
    ] = Field(default_factory=dict)


class QueryRequest(Asked):
    """What a client of /query may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelName = None
    dimensions: Annotated[PositiveCount | None, Field(description="Ask vectors of this length.")] = None


class SearchRequest(Search, Asked):
    """What a client of /search may ask for by an expression."""


A = TypeVar("A", bound=Asked)


def _body(kind: type[Asked], **more: Any) -> Schema:
    schema = flat(kind)
    schema["properties"]["images"] |= {"additionalProperties": native.IMAGE}
    example = {"expression": "a.png + dim:3 !dim:5", "images": {"a.png": PIXEL}, **more}
    return {"schema": schema, "example": example}


@query_router.post("/query", summary="Read an expression: the vectors to search with, and the dimensions to leave out")
@documented(
    QueryAnswer, EXAMPLES["queried"], body=lambda: body({"application/json": _body(QueryRequest, dimensions=8)})
)
async def post_query(request: Request) -> Response:
    content = await read_body(request, request.app.state.settings.max_body)
    limits = request.app.state.settings.limits
    query, expression, given = await parse_in_thread(content, lambda: _read(QueryRequest, json_object(content), limits))
    meaning, answer = await _meaning(request, expression, given, query.model, query.dimensions)
    written = query_json(meaning)
    return json_response(written) if answer is None else pipeline.reply(orjson.dumps(written), answer)


def _search_body() -> Schema:
    """Return the body of a search: an expression with its photos, or one photo."""
    of_photo = native.images(Search, 1)
    contents = of_photo["content"]
    whole = contents["application/json"]["schema"]
    contents["application/json"] = _body(SearchRequest, k=3)
    contents["application/json"]["schema"] = {"anyOf": [contents["application/json"]["schema"], whole]}
    contents["image/*"] = BINARY
    return of_photo


@query_router.post("/search", summary="Find photos of the index that this server has: like one, or by an expression")
@embedding
@documented(SearchAnswer, EXAMPLES["searched"], body=_search_body, query=Search)
async def post_search(request: Request) -> Response:
    index = index_of(request.app.state)
    model = index.model(request.app.state.registry)
    expression: Expression | None = None
    given: dict[Photo, Incoming] = {}

    def read_object(fields: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Search]:
        nonlocal expression, given
        if "expression" not in fields:
            return native.from_object(Search, fields, limits)
        body_fields, expression, given = _read(SearchRequest, fields, limits)
        return [], Search(
            **{name: getattr(body_fields, name) for name in body_fields.model_fields_set & Search.model_fields.keys()}
        )

    images, search = await native.read_request(request, Search, read_object)
    if expression is None:
        if len(images) != 1:
            raise ParameterInvalid(
                f"a search takes one photo, not {len(images)}",
                fix='send one; of several make an expression: {"expression": "a.jpg + b.jpg", "images": {...}}',
                field="images",
                value=len(images),
                limit=1,
            )
        photo = Photo("images[0]")
        expression, given = Expression(((Term(1.0, photo),),)), {photo: images[0]}
    meaning, answer = await _meaning(request, expression, given, model, index.dimensions)
    hits = await asyncio.to_thread(searched, request.app.state, index, meaning, search)
    return json_response(hits) if answer is None else pipeline.reply(orjson.dumps(hits), answer)


async def _meaning(
    request: Request, expression: Expression, photos: dict[Photo, Incoming], model: str | None, dimensions: int | None
) -> tuple[Queried, pipeline.Answer | None]:
    """Return what an expression stands for, and the answer that embedded what it names, if anything."""
    bundle = request.app.state.registry.get(model).bundle
    given: Given = dict([*photos.items(), *_texts(bundle, expression).items()])
    check_count(max(1, len(given)), request.app.state.settings.limits.images)
    if not given:
        return queried(bundle, expression, dimensions, {}), None
    parameters = Parameters(model=model, dimensions=dimensions, errors="item")
    answer = await pipeline.serve(request, list(given.values()), parameters)
    leaves = list(given)
    for i, error in answer.errors.items():  # the first: a query needs all that it names
        if isinstance(leaf := leaves[i], Photo):
            error.field = leaf.name if leaf.name == "images[0]" else f"images[{leaf.name!r}]"
        raise error
    return queried(bundle, expression, dimensions, dict(zip(leaves, answer.rows, strict=True))), answer


def _texts(bundle: Bundle, expression: Expression) -> dict[Words, Text]:
    """Return the texts of an expression, where the model has a text tower."""
    if not bundle.manifest.takes_texts:
        return {}
    return {words: Text(words.text, f"expression[{words.at}]") for words in expression.words()}


def _read(kind: type[A], given: dict[str, Any], limits: Limits) -> tuple[A, Expression, dict[Photo, Incoming]]:
    """Return what is wanted, read; and its photos, each of which must be given or be a link."""
    query = from_json(kind, given)
    expression = parse(query.expression)
    if query.expression in query.images:  # a photo's name that is a word
        expression = Expression(((Term(1.0, Photo(query.expression)),),))
    references = expression.photos()
    for name in query.images:
        if Photo(name) not in references:
            raise ExpressionInvalid(
                f"images holds {name!r}, and the expression does not", fix="leave it out, or use it", field="images"
            )
    return query, expression, {photo: _photo(photo, query.images, limits) for photo in references}


def _photo(photo: Photo, images: dict[str, Any], limits: Limits) -> Incoming:
    if photo.name in images:
        return image_from(images[photo.name], f"images[{photo.name!r}]", limits)
    if photo.name[:8].lower().startswith(("http://", "https://")):
        return Link(photo.name, f"expression[{photo.at}]")
    raise ExpressionInvalid(
        f"character {photo.at + 1} of the expression: the photo {photo.name!r} is not among the images",
        fix=f'send it: {{"images": {{"{photo.name}": "<base64>"}}}}; words stand in quotes',
        field=f"expression[{photo.at}]",
        value=photo.name[:200],
    )
