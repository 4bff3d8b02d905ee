"""TEI's routes: POST / and /embed_sparse, GET /info and /health; POST /embed is shared with the native API."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from nonneg_core.version import __version__
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.openapi import documented, json_body
from nonneg_server.api.route import Route, embedding, health, json_response
from nonneg_server.api.tei import translation as tei
from nonneg_server.api.tei.schemas import (
    ASKED,
    EMBEDDED,
    INFO,
    SPARSE,
    TeiEmbedRequest,
    TeiFailure,
    TeiInfo,
    TeiSparseValue,
)
from nonneg_server.embedding import Answer
from nonneg_server.health import check_alive, check_ready
from nonneg_server.requests.json_body import read_object
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["TEI"])


@router.post("/embed_sparse", summary="Embed images; only their active dimensions are answered")
@embedding
@documented(
    list[list[TeiSparseValue]],
    SPARSE,
    body=json_body(TeiEmbedRequest, ASKED),
    says="The active dimensions of each image.",
)
async def post_embed_sparse(request: Request) -> Response:
    return await _embedded(request, tei.write_sparse)


@router.post("/", summary="Embed images: /embed where Hugging Face's InferenceClient looks for it")
@embedding
@documented(list[list[float]], EMBEDDED, body=json_body(TeiEmbedRequest, ASKED), says="A list of vectors.")
async def post_root(request: Request) -> Response:
    request.scope["state"]["dialect"] = TEI
    return await _embedded(request, tei.write)


async def _embedded(request: Request, write: Callable[[Answer], bytes]) -> Response:
    images, parameters = tei.read(await read_object(request), request.app.state.settings.limits)
    answer = await serve(request, images, parameters, field="inputs")
    return reply(write(answer), answer)


@router.get("/health", summary="Alive and ready, as TEI says it: with an empty body")
@health
@documented(says="Everything is working; the body is empty.")
async def get_health(request: Request) -> Response:
    check_alive(request.app.state)
    check_ready(request.app.state)
    return Response()


@router.get("/info", summary="The default model and the limits, as TEI names them")
@documented(TeiInfo, INFO)
async def get_info(request: Request) -> Response:
    settings, engine = request.app.state.settings, request.app.state.registry.get()
    manifest = engine.bundle.manifest
    info: TeiInfo = {
        "model_id": manifest.name,
        "model_sha": manifest.fingerprint,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "model"}},
        "served_model_name": manifest.name,
        "embedding_size": manifest.dimensions,
        "max_client_batch_size": settings.max_images,
        "max_concurrent_requests": settings.queue,
        "tokenization_workers": engine.threads,
        "payload_limit": settings.max_body,
        "version": __version__,
    }
    return json_response(info)


TEI = Dialect("tei", ("/info", "/health", "/embed_sparse"), tei.error_body, TeiFailure, tuple(router.routes))
