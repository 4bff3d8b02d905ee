"""POST /embed, /query, /shorten and /explain: images, expressions or stored vectors in, vectors and reasons out."""

import asyncio
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request, Response
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import ExpressionInvalid, ParameterInvalid
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.api import native_request as native
from nonneg_server.api.native_answers import EmbedAnswer, ExplainAnswer, QueryAnswer
from nonneg_server.api.route import EXAMPLES, PIXEL, Route, Schema, body, documented, embedding, flat, json_response
from nonneg_server.engine.jobs import Text
from nonneg_server.models.explanation import explain, maps_of, queried, query_json, with_cells
from nonneg_server.pipeline import request_pipeline as pipeline
from nonneg_server.pipeline.answer_forms import form_for
from nonneg_server.requests.bodies import LARGE, json_object, parse_in_thread, read_body, serialized
from nonneg_server.requests.inputs import Incoming, Limits, Link, check_count, image_from
from nonneg_server.requests.parameters import Comparison, ModelName, Parameters, PositiveCount, from_json
from nonneg_server.requests.vectors import as_array, check_size, stored_vectors
from nonneg_vectors.expressions.expression import Expression, Photo, Term, Words
from nonneg_vectors.expressions.expression_parser import MOST_CHARACTERS, parse

embed_router = APIRouter(route_class=Route, tags=["embed"])


def _body() -> Schema:
    """Return the body, of images, of texts or of both."""
    request_body = native.images(Parameters)
    of_json = request_body["content"]["application/json"]
    of_json["schema"] = {"anyOf": [of_json["schema"], *native.words(of_json["schema"])]}
    return request_body


@embed_router.post(
    "/embed", summary="Embed one image or many; JSON with `inputs` is TEI's request, and answered as TEI does"
)
@embedding
@documented(
    EmbedAnswer | list[list[float]],
    EXAMPLES["embedded"],
    body=_body,
    query=Parameters,
    others=native.FORMS,
    says="Vectors in the order of the images; of TEI's request, a bare list of them.",
    guests=True,
)
async def post_embed(request: Request) -> Response:
    form, state = form_for(", ".join(request.headers.getlist("accept"))), request.scope["state"]

    def read_object(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
        dialect = next((one for one in request.app.state.guests if one.guest.claims(given)), None)
        if dialect is None:
            state["field"] = next((name for name in native.LISTS if name in given), "images")
            return native.from_object(Parameters, given, limits)
        state["dialect"] = dialect
        if request.scope["query_string"]:
            raise ParameterInvalid(
                f"parameters stand beside `{dialect.guest.field}` and in the URL",
                fix="give all in the body",
                field="query",
            )
        images, parameters = dialect.guest.read(given, limits)
        return images, parameters

    photos, parameters = await native.read_request(request, Parameters, read_object)
    if "dialect" in state:
        guest = state["dialect"].guest
        answer = await pipeline.serve(request, photos, parameters, field=guest.field)
        return pipeline.reply(await pipeline.written(answer, guest.write), answer)
    form.check(parameters)
    answer = await pipeline.serve(request, photos, parameters, field=state.get("field", "images"))
    return pipeline.reply(await pipeline.written(answer, form.write), answer, form.MEDIA_TYPE)


# POST /query: an expression of photos, words and dimensions becomes weightings of dimensions and conditions.


class QueryRequest(BaseModel):
    """What a client of /query may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    model: ModelName = None
    dimensions: Annotated[PositiveCount | None, Field(description="Ask vectors of this length.")] = None


def _query_body() -> Schema:
    schema = flat(QueryRequest)
    schema["properties"]["images"] |= {"additionalProperties": native.IMAGE}
    example = {"expression": "a.png + dim:3 !dim:5", "images": {"a.png": PIXEL}, "dimensions": 8}
    return body({"application/json": {"schema": schema, "example": example}})


@embed_router.post("/query", summary="Read an expression: the vectors to search with, and the dimensions to leave out")
@documented(QueryAnswer, EXAMPLES["queried"], body=_query_body)
async def post_query(request: Request) -> Response:
    given = await read_body(request, request.app.state.settings.max_body)
    limits = request.app.state.settings.limits
    query, expression, photos = await parse_in_thread(given, lambda: _read(json_object(given), limits))
    bundle = request.app.state.registry.get(query.model).bundle
    parameters = Parameters(model=query.model, dimensions=query.dimensions, errors="item")
    embedded: dict[Photo | Words, Incoming] = dict([*photos.items(), *_texts(bundle, expression).items()])
    check_count(max(1, len(embedded)), limits.images)
    if not embedded:
        return json_response(query_json(queried(bundle, expression, query.dimensions, {})))
    answer = await pipeline.serve(request, list(embedded.values()), parameters)
    leaves = list(embedded)
    for i, error in answer.errors.items():  # the first: a query needs all that it names
        if isinstance(leaf := leaves[i], Photo):
            error.field = f"images[{leaf.name!r}]"
        raise error
    vectors = dict(zip(leaves, answer.rows, strict=True))
    return pipeline.reply(orjson.dumps(query_json(queried(bundle, expression, query.dimensions, vectors))), answer)


def _texts(bundle: Bundle, expression: Expression) -> dict[Words, Text]:
    """Return the texts of an expression, where the model has a text tower."""
    if not bundle.manifest.takes_texts:
        return {}
    return {words: Text(words.text, f"expression[{words.at}]") for words in expression.words()}


def _read(given: dict[str, Any], limits: Limits) -> tuple[QueryRequest, Expression, dict[Photo, Incoming]]:
    """Return what is asked, read; and its photos, each of which must be given or be a link."""
    query = from_json(QueryRequest, given)
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


# POST /shorten: stored vectors in, shorter ones out, without a run of the model.


@embed_router.post("/shorten", summary="Shorten stored vectors by the rule of /embed")
@documented(EmbedAnswer, EXAMPLES["embedded"], body=native.vectors, query=Parameters, others=native.FORMS)
async def post_shorten(request: Request) -> Response:
    form = form_for(", ".join(request.headers.getlist("accept")))
    query = native.query_parameters(request.scope["query_string"], Parameters)
    body = await read_body(request, request.app.state.settings.max_body)
    content_type = request.headers.get("content-type", "")

    def read() -> tuple[Manifest, pipeline.EncodedBatch, Parameters]:
        stored = stored_vectors(body, content_type, query)
        form.check(stored.parameters)
        manifest = request.app.state.registry.get(stored.parameters.model).bundle.manifest
        z = as_array(stored, manifest)
        return manifest, pipeline.EncodedBatch(z, list(range(len(z))), {}), stored.parameters

    manifest, raw, parameters = await serialized(read) if len(body) > LARGE else await asyncio.to_thread(read)
    lengths = pipeline.lengths_of(parameters, manifest, raw.vectors.shape[1])
    check_size(len(raw.vectors), sum(lengths))
    answer = await pipeline.priced_answer(request, manifest, raw, parameters, lengths)
    return pipeline.reply(await pipeline.written(answer, form.write), answer, form.MEDIA_TYPE)


# POST /explain: why two images are alike.


@embed_router.post("/explain", summary="Split the cosine of two images into its dimensions")
@embedding
@documented(ExplainAnswer, EXAMPLES["explained"], body=partial(native.images, Comparison, 2), query=Comparison)
async def post_explain(request: Request) -> Response:
    photos, comparison = await native.read_request(request, Comparison)
    if len(photos) != 2:
        raise ParameterInvalid(
            f"/explain compares 2 images, not {len(photos)}", fix="send two", field="images", value=len(photos), limit=2
        )
    state = request.app.state
    parameters = Parameters(
        model=comparison.model, dimensions=comparison.dimensions, top_k=comparison.top_k, errors="fail"
    )
    engine = state.registry.get(comparison.model)  # before: another may have its name afterwards
    async with pipeline.served(request, photos, parameters) as (answer, pictures):
        a, b = answer.vectors[0]
        explanation = await asyncio.to_thread(
            explain, engine.bundle, a, b, comparison.limit
        )  # the atlas is on the disk
        if comparison.where:
            read = [picture for picture in pictures if isinstance(picture, (bytes, Image.Image))]
            dimensions = [one["dimension"] for one in explanation["contributions"]]
            deadline = request.scope["state"]["deadline"]()
            located = await maps_of(state).locate(engine.workers, engine.bundle, read, dimensions, deadline=deadline)
            explanation = with_cells(explanation, located)
    return pipeline.reply(orjson.dumps(explanation), answer)
