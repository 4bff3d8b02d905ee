"""KServe's v2 routes: health, metadata, inference, and the repository that loads and unloads models."""

import asyncio
import logging
from functools import partial

from fastapi import APIRouter, Request, Response

from nonneg_core import errors
from nonneg_server.api import kserve_schemas as schemas
from nonneg_server.api import kserve_tensors as kserve
from nonneg_server.api.kserve_schemas import INDEX, KServeDone, KServeIndexRow, config_of, statistics_of
from nonneg_server.api.route import (
    BINARY,
    EXAMPLES,
    Dialect,
    Route,
    documented,
    embedding,
    health,
    json_body,
    json_response,
)
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Repository, check_alive, check_ready
from nonneg_server.pipeline.request_pipeline import reply, serve, written
from nonneg_server.requests.bodies import parse_in_thread, read_body

logger = logging.getLogger("nonneg")
repository_router = APIRouter(route_class=Route, prefix="/v2/repository", tags=["KServe v2"])


@repository_router.post("/index", summary="Every model that is served or could be")
@documented(list[KServeIndexRow], INDEX, says="Every model that is served or could be.")
async def index(request: Request) -> Response:
    repository = request.app.state.repository
    served = {engine.name: engine for engine in request.app.state.registry.all()}
    rows: list[KServeIndexRow] = []
    for name in repository.names() if repository is not None else served:
        engine = served.get(name)
        version = engine.bundle.manifest.version if engine else ""
        rows.append({"name": name, "version": version, "state": "READY" if engine else "UNAVAILABLE", "reason": ""})
    return json_response(rows)


@repository_router.post("/models/{model}/load", summary="Serve a model, or the present state of its folder")
@documented(KServeDone, {})
async def load(request: Request) -> Response:
    repository, model = _repository(request), request.path_params["model"]
    try:
        engine = await asyncio.get_running_loop().run_in_executor(None, repository.load, model)
    except (errors.BundleInvalid, errors.CheckFailed, errors.DataInvalid, errors.StorageFailed) as error:
        _log(request, f"{model} was not loaded, {error}")
        raise errors.ParameterInvalid(
            f"{model} cannot be loaded, what was served goes on: {error.message}",
            fix=error.fix,
            field="model",
            value=model,
        ) from error
    _log(request, f"loaded {model} ({engine.bundle.manifest.fingerprint[:8]})")
    return json_response({})


@repository_router.post("/models/{model}/unload", summary="Serve a model no more; what it was asked is answered")
@documented(KServeDone, {})
async def unload(request: Request) -> Response:
    repository, model = _repository(request), request.path_params["model"]
    await asyncio.get_running_loop().run_in_executor(None, repository.unload, model)
    _log(request, f"unloaded {model}")
    return json_response({})


def _log(request: Request, what: str) -> None:
    """Log what changed here, and who wanted it: at the level of a reload by SIGHUP, so that it is seen by default."""
    state, client = request.scope["state"], request.client
    who = {"request_id": state["request_id"], "key": state.get("key"), "client": client.host if client else None}
    caller = {name: value for name, value in who.items() if value is not None}
    logger.warning("%s, as %s asked", what, state.get("key") or caller.get("client", "an unknown client"), extra=caller)


def _repository(request: Request) -> Repository:
    state = request.app.state
    if state.repository is None or not state.settings.manage:
        raise errors.NotFound("this server does not let clients manage its models", fix="start it with --manage")
    repo: Repository = state.repository
    return repo


# KServe's v2 routes: health, metadata and inference.

router = APIRouter(route_class=Route, prefix="/v2", tags=["KServe v2"])
_BINARY = {"application/octet-stream": BINARY}


@router.get("", summary="The server's name, version and extensions")
@documented(schemas.KServeServer, EXAMPLES["kserve_server"])
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
@documented(schemas.KServeAllStatistics, EXAMPLES["kserve_statistics"])
async def get_all_statistics(request: Request) -> Response:
    return json_response({"model_stats": [statistics_of(engine) for engine in request.app.state.registry.all()]})


@router.get("/models/{model}", summary="A model's tensors")
@router.get("/models/{model}/versions/{version}", summary="A model version's tensors")
@documented(schemas.KServeModel, EXAMPLES["kserve_model"])
async def get_model(request: Request) -> Response:
    return json_response(kserve.model_metadata(_engine(request).bundle.manifest))


@router.get("/models/{model}/config", summary="A model's configuration")
@router.get("/models/{model}/versions/{version}/config", summary="A model version's configuration")
@documented(schemas.KServeConfig, EXAMPLES["kserve_config"])
async def get_config(request: Request) -> Response:
    engine, images = _engine(request), request.app.state.settings.max_images
    return json_response(config_of(kserve.model_metadata(engine.bundle.manifest), engine.threads, images))


@router.get("/models/{model}/stats", summary="What a model did since it was loaded")
@router.get("/models/{model}/versions/{version}/stats", summary="What a model version did since it was loaded")
@documented(schemas.KServeAllStatistics, EXAMPLES["kserve_statistics"])
async def get_statistics(request: Request) -> Response:
    return json_response({"model_stats": [statistics_of(_engine(request))]})


@router.get("/models/{model}/ready", summary="A model is ready")
@router.get("/models/{model}/versions/{version}/ready", summary="A model version is ready")
@documented(schemas.KServeModelReady, schemas.MODEL_READY)
async def model_ready(request: Request) -> Response:
    engine = _engine(request)
    if engine.canary is not None:
        engine.canary.check()
    return json_response({"name": engine.bundle.manifest.name, "ready": True})


@router.post("/models/{model}/infer", summary="Embed a tensor of images")
@router.post("/models/{model}/versions/{version}/infer", summary="Embed a tensor of images")
@embedding
@documented(
    schemas.KServeAnswer,
    EXAMPLES["kserve_answer"],
    body=json_body(schemas.InferRequest, schemas.ASKED, **_BINARY),
    others=_BINARY,
)
async def infer(request: Request) -> Response:
    _engine(request)
    body = await read_body(request, request.app.state.settings.max_body)
    length, settings = request.headers.get(kserve.HEADER_LENGTH), request.app.state.settings
    inference, photos, parameters = await parse_in_thread(
        body, lambda: kserve.read(body, length, settings.limits, settings.max_pixels)
    )
    options = parameters.model_copy(update={"model": request.path_params["model"]})
    answer = await serve(request, photos, options, field="inputs[0]")
    content, header_length = await written(answer, partial(kserve.write, inference))
    if header_length is None:
        return reply(content, answer)
    response = reply(content, answer, "application/octet-stream")
    response.headers[kserve.HEADER_LENGTH] = str(header_length)
    return response


def _engine(request: Request) -> InferenceEngine:
    """Return the engine of the model, and of the version, in the path."""
    model, version = request.path_params["model"], request.path_params.get("version")
    engine: InferenceEngine = request.app.state.registry.get(model)
    current = engine.bundle.manifest.version
    if version is not None and version != current:
        raise errors.ModelNotFound(
            f"{model} has no version {version!r}", fix=f"ask for {current}", field="version", value=version
        )
    return engine


_ROUTES = (*router.routes, *repository_router.routes)
KSERVE = Dialect("kserve", ("/v2",), kserve.error_body, schemas.KServeFailure, _ROUTES)
