"""POST /embed, /shorten and /explain: images, texts or stored vectors in, vectors and reasons out."""

import asyncio
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from PIL import Image

from nonneg_core.errors import ParameterInvalid
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.api import native_request as native
from nonneg_server.api.native_answers import EmbedAnswer, ExplainAnswer
from nonneg_server.api.route import EXAMPLES, Route, Schema, documented, embedding
from nonneg_server.models.explanation import explain, maps_of, with_cells
from nonneg_server.pipeline import request_pipeline as pipeline
from nonneg_server.pipeline.answer_forms import form_for
from nonneg_server.requests.bodies import LARGE, read_body, serialized
from nonneg_server.requests.inputs import Incoming, Limits
from nonneg_server.requests.parameters import Comparison, Parameters
from nonneg_server.requests.vectors import as_array, check_size, stored_vectors

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
