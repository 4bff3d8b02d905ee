"""GET /models: what is served here."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from nonneg_server.engine import Engine

router = APIRouter(tags=["models"])


@router.get("/models", summary="The models served here; the first is the default")
async def get_models(request: Request) -> Response:
    engines: list[Engine] = request.app.state.registry.all()
    body = {"models": [summary(engine) for engine in engines]}
    return Response(orjson.dumps(body), media_type="application/json")


def summary(engine: Engine) -> dict[str, Any]:
    """A model in a few lines."""
    manifest = engine.bundle.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "fingerprint": manifest.fingerprint,
        "dimensions": manifest.dimensions,
        "view": manifest.view.model_dump(mode="json"),
    }
