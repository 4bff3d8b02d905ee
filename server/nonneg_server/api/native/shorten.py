"""POST /shorten: stored vectors in, shorter ones out, without a run of the model."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from nonneg_server.answers.negotiation import form_for
from nonneg_server.api.native.examples import EMBEDDED
from nonneg_server.api.native.request_bodies import FORMS, vectors
from nonneg_server.api.native.schemas import EmbedAnswer
from nonneg_server.api.native.translation import query_parameters
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route
from nonneg_server.embedding import Answer, EncodedBatch, lengths_of, shortened
from nonneg_server.requests.body import read_body
from nonneg_server.requests.json_body import LARGE, serialized
from nonneg_server.requests.parameters import Parameters
from nonneg_server.requests.vectors import as_array, check_size, stored_vectors
from nonneg_server.serving import reply

router = APIRouter(route_class=Route, tags=["embed"])


@router.post("/shorten", summary="Shorten stored vectors by the rule of /embed")
@documented(EmbedAnswer, EMBEDDED, body=vectors, query=Parameters, others=FORMS)
async def post_shorten(request: Request) -> Response:
    form = form_for(", ".join(request.headers.getlist("accept")))
    query = query_parameters(request.scope["query_string"], Parameters)
    body = await read_body(request, request.app.state.settings.max_body)
    content_type = request.headers.get("content-type", "")

    def work() -> tuple[bytes, Answer]:
        stored = stored_vectors(body, content_type, query)
        form.check(stored.parameters)
        manifest = request.app.state.registry.get(stored.parameters.model).bundle.manifest
        z = as_array(stored, manifest)
        check_size(len(z), sum(lengths_of(stored.parameters, manifest, z.shape[1])))
        answer = shortened(manifest, EncodedBatch(z, list(range(len(z))), {}), stored.parameters)
        return form.write(answer), answer

    content, answer = await serialized(work) if len(body) > LARGE else await asyncio.to_thread(work)
    return reply(content, answer, form.MEDIA_TYPE)
