"""TEI's route: GET /info."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request, Response

from nonneg_core.version import __version__
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.native.schemas import Failure
from nonneg_server.api.native.translation import error_body
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route
from nonneg_server.api.tei.schemas import INFO, TeiInfo

router = APIRouter(route_class=Route, tags=["TEI"])


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
    return Response(orjson.dumps(info), media_type="application/json")


TEI = Dialect("tei", ("/info",), error_body, Failure, tuple(router.routes))
