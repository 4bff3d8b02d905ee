"""Cohere's route: POST /v2/embed."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_server.api.cohere import translation as cohere
from nonneg_server.api.cohere.schemas import ANSWER, ASKED, CohereAnswer, CohereFailure, EmbedBody
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.openapi import documented, json_body
from nonneg_server.api.route import Route, embedding
from nonneg_server.requests.json_body import read_object
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["Cohere"])


@router.post("/v2/embed", summary="Embed images, as Cohere's clients ask for it")
@embedding
@documented(CohereAnswer, ANSWER, body=json_body(EmbedBody, ASKED))
async def post_embed(request: Request) -> Response:
    images, parameters, kinds = cohere.read(await read_object(request), request.app.state.settings.limits)
    answer = await serve(request, images, parameters)
    return reply(cohere.write(answer, kinds, request.scope["state"]["request_id"]), answer)


COHERE = Dialect("cohere", ("/v2/embed",), cohere.error_body, CohereFailure, tuple(router.routes))
