"""POST /query: an expression of photos, words and dimensions becomes weightings of dimensions and conditions."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import ExpressionInvalid
from nonneg_core.expressions.expression import Expression, Photo, Words
from nonneg_core.expressions.parse import MOST_CHARACTERS, parse
from nonneg_runtime.bundle import Bundle
from nonneg_server.api.native.examples import QUERIED
from nonneg_server.api.native.request_bodies import IMAGE
from nonneg_server.api.native.schemas import QueryAnswer
from nonneg_server.api.openapi import PIXEL, Schema, body, documented, flat
from nonneg_server.api.route import Route, json_response
from nonneg_server.engine.texts import Text
from nonneg_server.query import as_json, queried
from nonneg_server.requests.body import read_body
from nonneg_server.requests.images import Incoming, Limits, Link, check_count, image_from
from nonneg_server.requests.json_body import json_object, parse_in_thread
from nonneg_server.requests.parameters import Parameters, PositiveCount, from_json
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["embed"])


class QueryRequest(BaseModel):
    """What a client of /query may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expression: Annotated[
        str,
        Field(
            max_length=MOST_CHARACTERS, description='`photo.jpg + 2*dim:snow - "text" & "dog" !dim:17`: see the docs.'
        ),
    ]
    images: Annotated[
        dict[str, Any], Field(description="The photos by the names that they have in the expression.")
    ] = Field(default_factory=dict)
    model: Annotated[str | None, Field(description="A served model's name; without it, the default one.")] = None
    dimensions: Annotated[PositiveCount | None, Field(description="Ask vectors of this length.")] = None


def _body() -> Schema:
    schema = flat(QueryRequest)
    schema["properties"]["images"] |= {"additionalProperties": IMAGE}
    example = {"expression": "a.png + dim:3 !dim:5", "images": {"a.png": PIXEL}, "dimensions": 8}
    return body({"application/json": {"schema": schema, "example": example}})


@router.post("/query", summary="Read an expression: the vectors to search with, and the dimensions to leave out")
@documented(QueryAnswer, QUERIED, body=_body)
async def post_query(request: Request) -> Response:
    given = await read_body(request, request.app.state.settings.max_body)
    limits = request.app.state.settings.limits
    asked, expression, photos = await parse_in_thread(given, lambda: _read(json_object(given), limits))
    bundle = request.app.state.registry.get(asked.model).bundle
    wanted = Parameters(model=asked.model, dimensions=asked.dimensions, errors="item")
    embedded: dict[Photo | Words, Incoming] = dict([*photos.items(), *_texts(bundle, expression).items()])
    if not embedded:
        return json_response(as_json(queried(bundle, expression, asked.dimensions, {})))
    answer = await serve(request, list(embedded.values()), wanted)
    leaves = list(embedded)
    for i, error in answer.errors.items():  # the first: a query needs all that it names
        if isinstance(leaf := leaves[i], Photo):
            error.field = f"images[{leaf.name!r}]"
        raise error
    vectors = dict(zip(leaves, answer.rows, strict=True))
    return reply(orjson.dumps(as_json(queried(bundle, expression, asked.dimensions, vectors))), answer)


def _texts(bundle: Bundle, expression: Expression) -> dict[Words, Text]:
    """Return what a text tower embeds; what a lexicon knows is looked up as the expression is resolved."""
    if bundle.manifest.text is None:
        return {}
    return {words: Text(words.text, f"expression[{words.at}]") for words in expression.searched()}


def _read(given: dict[str, Any], limits: Limits) -> tuple[QueryRequest, Expression, dict[Photo, Incoming]]:
    """Return what is asked, read; and its photos, each of which must be given or be a link."""
    asked = from_json(QueryRequest, given)
    expression = parse(asked.expression)
    wanted = expression.photos()
    check_count(max(1, len(asked.images)), limits.images)
    for name in asked.images:
        if Photo(name) not in wanted:
            raise ExpressionInvalid(
                f"images holds {name!r}, and the expression does not", fix="leave it out, or use it", field="images"
            )
    return asked, expression, {photo: _photo(photo, asked.images, limits) for photo in wanted}


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
