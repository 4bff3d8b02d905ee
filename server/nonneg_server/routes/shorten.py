"""POST /shorten: stored vectors in, shorter ones out, without a run of the model."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from nonneg_server.answers.negotiation import form_for
from nonneg_server.embedding import Answer, Raw, lengths_of, shortened
from nonneg_server.requests.vectors import as_array, check_size, read_vectors
from nonneg_server.serving import reply

router = APIRouter(tags=["embed"])


@router.post("/shorten", summary="Shorten stored vectors by the rule of /embed")
async def post_shorten(request: Request) -> Response:
    form = form_for(request.headers.get("accept"))
    stored = await read_vectors(request)
    form.check(stored.parameters)
    manifest = request.app.state.registry.get(stored.parameters.model).bundle.manifest

    def work() -> tuple[bytes, Answer]:
        z = as_array(stored, manifest)
        check_size(len(z), sum(lengths_of(stored.parameters, z.shape[1])))
        answer = shortened(manifest, Raw(z, list(range(len(z))), {}), stored.parameters)
        return form.write(answer), answer

    content, answer = await asyncio.to_thread(work)  # it may be thousands of vectors
    return reply(content, answer, form.MEDIA_TYPE)
