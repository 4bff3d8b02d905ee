"""GET /models and below: what is served here, how good it is at which length, what its dimensions mean."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import NotFound
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.manifest import Manifest
from nonneg_runtime.words.known_names import names_of
from nonneg_server.api.native import examples, schemas
from nonneg_server.api.native.translation import query_parameters
from nonneg_server.api.openapi import BINARY, documented
from nonneg_server.api.route import Route, json_response
from nonneg_server.dimension_list import listed
from nonneg_server.dimensions import details, thumbnail
from nonneg_server.observation.drift import moved_at, sentences
from nonneg_server.requests.parameters import Listing

router = APIRouter(route_class=Route, tags=["models"])


@router.get("/models", summary="The models served here; the first is the default")
@documented(schemas.ModelList, examples.MODELS)
async def get_models(request: Request) -> Response:
    return json_response({"models": [summary(engine.bundle.manifest) for engine in request.app.state.registry.all()]})


@router.get("/models/{model}", summary="One model: its manifest, its measured quality by length, and how images drift")
@documented(schemas.ModelDetails, examples.MODEL)
async def get_model(request: Request) -> Response:
    engine = request.app.state.registry.get(request.path_params["model"])
    manifest = engine.bundle.manifest
    whole = manifest.model_dump(mode="json", exclude={"columns", "golden"})
    found = moved_at(engine)
    names = await asyncio.to_thread(names_of, engine.bundle) if found else {}
    drift = sentences(found, names, engine.stats.images, engine.stats.since)
    return json_response({**whole, "lengths": lengths(manifest), "drift": drift})


@router.get("/models/{model}/dimensions", summary="The dimensions: names, evidence and frequencies, in pages")
@documented(schemas.DimensionList, examples.DIMENSIONS, query=Listing)
async def get_dimensions(request: Request) -> Response:
    bundle = _bundle(request)
    asked = query_parameters(request.scope["query_string"], Listing)
    return json_response(await asyncio.to_thread(listed, bundle, asked))


@router.get("/models/{model}/dimensions/{dimension}", summary="One dimension: its statistics and examples")
@documented(schemas.DimensionDetails, examples.DIMENSION)
async def get_dimension(request: Request) -> Response:
    return json_response(await asyncio.to_thread(details, _bundle(request), _number(request, "dimension")))


@router.get("/models/{model}/dimensions/{dimension}/examples/{example}", summary="The picture of one example")
@documented(others={"image/*": BINARY}, says="A picture.")
async def get_example(request: Request) -> Response:
    dimension, place = _number(request, "dimension"), _number(request, "example")
    picture = await asyncio.to_thread(thumbnail, _bundle(request), dimension, place)
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "max-age=86400"})


def _bundle(request: Request) -> Bundle:
    found: Bundle = request.app.state.registry.get(request.path_params["model"]).bundle
    return found


def _number(request: Request, what: str) -> int:
    text: str = request.path_params[what]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise NotFound(f"{what} {text!r} is not a number", fix="name it by its number", field=what, value=text[:40])
    return int(text)


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return a model in a few lines."""
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "fingerprint": manifest.fingerprint,
        "dimensions": manifest.dimensions,
        "precision": manifest.precision,
        "view": manifest.view.model_dump(mode="json"),
    }


def lengths(manifest: Manifest) -> list[dict[str, Any]]:
    """Return what each prefix was measured to keep; empty where the exporter had no images to measure on."""
    if manifest.quality is None:
        return []
    rows = [row for row in manifest.quality.rows if row.selection == "expected-activation"]
    return [row.model_dump(mode="json", exclude={"selection"}) for row in rows]
