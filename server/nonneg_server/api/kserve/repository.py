"""KServe's model repository: what is there, load (or reload) it, unload it, without dropping a request."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import BundleInvalid, CheckFailed, DataInvalid, NotFound, ParameterInvalid, StorageFailed
from nonneg_server.api.kserve.schemas import INDEX, KServeDone, KServeIndexRow
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route, json_response
from nonneg_server.repository import Repository

logger = logging.getLogger("nonneg")
router = APIRouter(route_class=Route, prefix="/v2/repository", tags=["KServe v2"])


@router.post("/index", summary="Every model that is served or could be")
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


@router.post("/models/{model}/load", summary="Serve a model, or the present state of its folder")
@documented(KServeDone, {})
async def load(request: Request) -> Response:
    repository, model = _repository(request), request.path_params["model"]
    try:
        engine = await asyncio.get_running_loop().run_in_executor(None, repository.load, model)
    except (BundleInvalid, CheckFailed, DataInvalid, StorageFailed) as error:
        _log(request, f"{model} was not loaded, {error}")
        raise ParameterInvalid(
            f"{model} cannot be loaded, what was served goes on: {error.message}",
            fix=error.fix,
            field="model",
            value=model,
        ) from error
    _log(request, f"loaded {model} ({engine.bundle.manifest.fingerprint[:8]})")
    return json_response({})


@router.post("/models/{model}/unload", summary="Serve a model no more; what it was asked is answered")
@documented(KServeDone, {})
async def unload(request: Request) -> Response:
    repository, model = _repository(request), request.path_params["model"]
    if [engine.name for engine in repository.registry.all()] == [model]:
        raise ParameterInvalid(
            f"{model} is the only model served", fix="load another one first, or stop the server", field="model"
        )
    await asyncio.get_running_loop().run_in_executor(None, repository.unload, model)
    _log(request, f"unloaded {model}")
    return json_response({})


def _log(request: Request, what: str) -> None:
    """Log what changed here, and who wanted it: at the level of a reload by SIGHUP, so that it is seen by default."""
    state, client = request.scope["state"], request.client
    who = {"request_id": state["request_id"], "key": state.get("key"), "client": client.host if client else None}
    told = {name: value for name, value in who.items() if value is not None}
    logger.warning("%s, as %s asked", what, state.get("key") or told.get("client", "an unknown client"), extra=told)


def _repository(request: Request) -> Repository:
    state = request.app.state
    if state.repository is None or not state.settings.manage:
        raise NotFound("this server does not let clients manage its models", fix="start it with --manage")
    found: Repository = state.repository
    return found
