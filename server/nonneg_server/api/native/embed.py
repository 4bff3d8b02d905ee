"""POST /embed: images in, shortened vectors out; in TEI's words where the body has `inputs`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import ParameterInvalid
from nonneg_server.answers.negotiation import form_for
from nonneg_server.api.native.examples import EMBEDDED
from nonneg_server.api.native.request_bodies import FORMS, images, words
from nonneg_server.api.native.schemas import EmbedAnswer, ErrorAnswer
from nonneg_server.api.native.translation import LISTS, from_object, is_mixed, read_request
from nonneg_server.api.openapi import Schema, documented, flat
from nonneg_server.api.route import Route, embedding
from nonneg_server.api.tei import translation as tei
from nonneg_server.api.tei.routes import TEI
from nonneg_server.api.tei.schemas import TeiEmbedRequest
from nonneg_server.requests.images import Incoming, Limits
from nonneg_server.requests.parameters import Parameters
from nonneg_server.serving import reply, serve

router = APIRouter(route_class=Route, tags=["embed"])


def _body() -> Schema:
    """Return the native body, of images, of texts or of both, or TEI's."""
    found = images(Parameters)
    of_json = found["content"]["application/json"]
    of_json["schema"] = {"anyOf": [of_json["schema"], *words(of_json["schema"]), flat(TeiEmbedRequest)]}
    return found


@router.post("/embed", summary="Embed one image or many; JSON with `inputs` is TEI's request, and answered as TEI does")
@embedding
@documented(
    EmbedAnswer | list[list[float]],
    EMBEDDED,
    body=_body,
    query=Parameters,
    others=FORMS,
    says="Vectors in the order of the images; of TEI's request, a bare list of them.",
    failure=ErrorAnswer | TEI.failure,
)
async def post_embed(request: Request) -> Response:
    form, state = form_for(", ".join(request.headers.getlist("accept"))), request.scope["state"]

    def read_object(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
        if "inputs" not in given or "images" in given or is_mixed(given):
            state["field"] = next((name for name in LISTS if name in given), "images")
            return from_object(Parameters, given, limits)
        state["dialect"] = TEI
        if request.scope["query_string"]:
            raise ParameterInvalid(
                "parameters stand beside `inputs` and in the URL", fix="give all in the body", field="query"
            )
        return tei.read(given, limits)

    photos, parameters = await read_request(request, Parameters, read_object)
    if state.get("dialect") is TEI:
        answer = await serve(request, photos, parameters, field="inputs")
        return reply(tei.write(answer), answer)
    form.check(parameters)
    answer = await serve(request, photos, parameters, field=state.get("field", "images"))
    return reply(form.write(answer), answer, form.MEDIA_TYPE)
