"""POST /embed: images in, shortened vectors out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_server.answers.negotiation import form_for
from nonneg_server.embedding import Answer, embed
from nonneg_server.native import read_request

router = APIRouter(tags=["embed"])


@router.post("/embed", summary="Embed one image or many")
async def post_embed(request: Request) -> Response:
    state = request.app.state
    form = form_for(request.headers.get("accept"))
    wanted = await read_request(request, state.settings)
    form.check(wanted.parameters)
    answer = await embed(state.registry.get(wanted.parameters.model), wanted.images, wanted.parameters)
    return Response(form.write(answer), headers=headers(answer), media_type=form.MEDIA_TYPE)


def headers(answer: Answer) -> dict[str, str]:
    """Which vectors these are and where the milliseconds went."""
    timing = answer.timing
    return {
        "x-fingerprint": answer.manifest.fingerprint,
        "x-queue-time": f"{timing.queue * 1e3:.3f}",
        "x-decode-time": f"{timing.decode * 1e3:.3f}",
        "x-inference-time": f"{timing.inference * 1e3:.3f}",
    }
