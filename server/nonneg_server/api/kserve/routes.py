"""KServe's v2 routes: health, metadata and inference."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import ModelNotFound
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.kserve import repository, schemas
from nonneg_server.api.kserve import translation as kserve
from nonneg_server.api.kserve.extensions import config_of, statistics_of
from nonneg_server.api.openapi import BINARY, documented, json_body
from nonneg_server.api.route import Route, embedding, health, json_response
from nonneg_server.engine.engine import InferenceEngine
from nonneg_server.health import check_alive, check_ready
from nonneg_server.requests.body import read_body
from nonneg_server.requests.json_body import parse_in_thread
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, prefix="/v2", tags=["KServe v2"])
_BINARY = {"application/octet-stream": BINARY}


@router.get("", summary="The server's name, version and extensions")
@documented(schemas.KServeServer, schemas.SERVER)
async def get_server(_: Request) -> Response:
    return json_response(kserve.server_metadata())


@router.get("/health/live", summary="Alive")
@health
@documented(schemas.KServeLive, {"live": True})
async def live(request: Request) -> Response:
    check_alive(request.app.state)
    return json_response({"live": True})


@router.get("/health/ready", summary="Ready")
@health
@documented(schemas.KServeReady, {"ready": True})
async def ready(request: Request) -> Response:
    check_ready(request.app.state)
    return json_response({"ready": True})


@router.get("/models/stats", summary="What all models did since they were loaded")
@documented(schemas.KServeAllStatistics, schemas.STATISTICS)
async def get_all_statistics(request: Request) -> Response:
    return json_response({"model_stats": [statistics_of(engine) for engine in request.app.state.registry.all()]})


@router.get("/models/{model}", summary="A model's tensors")
@router.get("/models/{model}/versions/{version}", summary="A model version's tensors")
@documented(schemas.KServeModel, schemas.MODEL)
async def get_model(request: Request) -> Response:
    return json_response(kserve.model_metadata(_engine(request).bundle.manifest))


@router.get("/models/{model}/config", summary="A model's configuration")
@router.get("/models/{model}/versions/{version}/config", summary="A model version's configuration")
@documented(schemas.KServeConfig, schemas.CONFIG)
async def get_config(request: Request) -> Response:
    engine, images = _engine(request), request.app.state.settings.max_images
    return json_response(config_of(kserve.model_metadata(engine.bundle.manifest), engine.threads, images))


@router.get("/models/{model}/stats", summary="What a model did since it was loaded")
@router.get("/models/{model}/versions/{version}/stats", summary="What a model version did since it was loaded")
@documented(schemas.KServeAllStatistics, schemas.STATISTICS)
async def get_statistics(request: Request) -> Response:
    return json_response({"model_stats": [statistics_of(_engine(request))]})


@router.get("/models/{model}/ready", summary="A model is ready")
@router.get("/models/{model}/versions/{version}/ready", summary="A model version is ready")
@documented(schemas.KServeModelReady, schemas.MODEL_READY)
async def model_ready(request: Request) -> Response:
    return json_response({"name": _engine(request).bundle.manifest.name, "ready": True})


@router.post("/models/{model}/infer", summary="Embed a tensor of images")
@router.post("/models/{model}/versions/{version}/infer", summary="Embed a tensor of images")
@embedding
@documented(
    schemas.KServeAnswer,
    schemas.ANSWER,
    body=json_body(schemas.InferRequest, schemas.ASKED, **_BINARY),
    others=_BINARY,
)
async def infer(request: Request) -> Response:
    _engine(request)
    body = await read_body(request, request.app.state.settings.max_body)
    length, settings = request.headers.get(kserve.HEADER_LENGTH), request.app.state.settings
    wanted, photos, parameters = await parse_in_thread(
        body, lambda: kserve.read(body, length, settings.limits, settings.max_pixels)
    )
    asked = parameters.model_copy(update={"model": request.path_params["model"]})
    answer = await serve(request, photos, asked, field="inputs[0]")
    content, header_length = kserve.write(wanted, answer)
    if header_length is None:
        return reply(content, answer)
    response = reply(content, answer, "application/octet-stream")
    response.headers[kserve.HEADER_LENGTH] = str(header_length)
    return response


def _engine(request: Request) -> InferenceEngine:
    """Return the engine of the model, and of the version, in the path."""
    model, version = request.path_params["model"], request.path_params.get("version")
    engine: InferenceEngine = request.app.state.registry.get(model)
    found = engine.bundle.manifest.version
    if version is not None and version != found:
        raise ModelNotFound(
            f"{model} has no version {version!r}", fix=f"ask for {found}", field="version", value=version
        )
    return engine


_ROUTES = (*router.routes, *repository.router.routes)
KSERVE = Dialect("kserve", ("/v2",), kserve.error_body, schemas.KServeFailure, _ROUTES)
