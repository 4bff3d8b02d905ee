"""OpenAI's routes: POST /v1/embeddings and GET /v1/models."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_server.api.dialect import Dialect
from nonneg_server.api.openai import schemas
from nonneg_server.api.openai import translation as openai
from nonneg_server.api.openapi import documented, json_body
from nonneg_server.api.route import Route, embedding, json_response
from nonneg_server.requests.json_body import read_object
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["OpenAI"])


@router.post("/v1/embeddings", summary="Embed images, as OpenAI's clients ask for it")
@embedding
@documented(schemas.OpenAIEmbeddings, schemas.EMBEDDINGS, body=json_body(schemas.EmbeddingsRequest, schemas.ASKED))
async def post_embeddings(request: Request) -> Response:
    given = await read_object(request)
    field = "messages" if "messages" in given else "input"
    images, parameters = openai.read(given, request.app.state.settings.limits)
    answer = await serve(request, images, parameters, field=field)
    return reply(openai.write(answer, field), answer)


@router.get("/v1/models", summary="The models served here, as OpenAI lists them")
@documented(schemas.OpenAIModels, schemas.MODELS)
async def get_models(request: Request) -> Response:
    cards = [openai.model_card(engine.bundle) for engine in request.app.state.registry.all()]
    return json_response({"object": "list", "data": cards})


@router.get("/v1/models/{model}", summary="One model, as OpenAI describes it")
@documented(schemas.OpenAIModel, schemas.MODEL)
async def get_model(request: Request) -> Response:
    card = openai.model_card(request.app.state.registry.get(request.path_params["model"]).bundle)
    return json_response(card)


OPENAI = Dialect("openai", ("/v1",), openai.error_body, schemas.OpenAIFailure, tuple(router.routes))
