"""POST /shorten: stored vectors in, shorter ones out, without a run of the model."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_server.answers.negotiation import form_for
from nonneg_server.embedding import Raw, shortened
from nonneg_server.serving import reply
from nonneg_server.vectors import as_array, read_vectors

router = APIRouter(tags=["embed"])


@router.post("/shorten", summary="Shorten stored vectors by the rule of /embed")
async def post_shorten(request: Request) -> Response:
    form = form_for(request.headers.get("accept"))
    stored = await read_vectors(request)
    form.check(stored.parameters)
    manifest = request.app.state.registry.get(stored.parameters.model).bundle.manifest
    z = as_array(stored, manifest)
    answer = shortened(manifest, Raw(z, list(range(len(z))), {}), stored.parameters)
    return reply(form.write(answer), answer, form.MEDIA_TYPE)
