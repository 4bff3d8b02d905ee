"""POST /embed: images in, shortened vectors out."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from nonneg_server.answers.negotiation import form_for
from nonneg_server.api.native.bodies import FORMS, images
from nonneg_server.api.native.schemas import EMBEDDED, EmbedAnswer
from nonneg_server.api.native.translation import read_request
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route, embedding
from nonneg_server.requests.parameters import Parameters
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["embed"])


@router.post("/embed", summary="Embed one image or many")
@embedding
@documented(EmbedAnswer, EMBEDDED, body=partial(images, Parameters), query=Parameters, others=FORMS)
async def post_embed(request: Request) -> Response:
    form = form_for(request.headers.get("accept"))
    photos, parameters = await read_request(request, Parameters)
    form.check(parameters)
    answer = await serve(request, photos, parameters)
    return reply(form.write(answer), answer, form.MEDIA_TYPE)
