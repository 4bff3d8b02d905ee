"""POST /explain: why two images are alike."""

from __future__ import annotations

import asyncio
from functools import partial

import orjson
from fastapi import APIRouter, Request, Response
from PIL import Image

from nonneg_core.errors import ParameterInvalid
from nonneg_server.api.native.examples import EXPLAINED
from nonneg_server.api.native.request_bodies import images
from nonneg_server.api.native.schemas import ExplainAnswer
from nonneg_server.api.native.translation import read_request
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route, embedding
from nonneg_server.cell_maps import maps_of
from nonneg_server.explanation import explain, with_cells
from nonneg_server.requests.parameters import Comparison, Parameters
from nonneg_server.serving import deadline_of, fetched, reply, serve

router = APIRouter(route_class=Route, tags=["embed"])


@router.post("/explain", summary="Split the cosine of two images into its dimensions")
@embedding
@documented(ExplainAnswer, EXPLAINED, body=partial(images, Comparison, 2), query=Comparison)
async def post_explain(request: Request) -> Response:
    photos, asked = await read_request(request, Comparison)
    if len(photos) != 2:
        raise ParameterInvalid(
            f"/explain compares 2 images, not {len(photos)}", fix="send two", field="images", value=len(photos), limit=2
        )
    state = request.app.state
    deadline = deadline_of(request, state.settings.timeout)
    wanted = Parameters(model=asked.model, dimensions=asked.dimensions, top_k=asked.top_k, errors="fail")
    engine = state.registry.get(asked.model)  # before: another may have its name afterwards
    async with fetched(request, photos, deadline) as pictures:
        answer = await serve(request, pictures, wanted, deadline=deadline)
        a, b = answer.vectors[0]
        found = await asyncio.to_thread(explain, engine.bundle, a, b, asked.limit)  # the atlas is on the disk
        if asked.where:
            read = [picture for picture in pictures if isinstance(picture, (bytes, Image.Image))]
            dimensions = [one["dimension"] for one in found["contributions"]]
            located = await maps_of(state).locate(engine.workers, engine.bundle, read, dimensions, deadline=deadline)
            found = with_cells(found, located)
    return reply(orjson.dumps(found), answer)
