"""The API of Hugging Face's text-embeddings-inference (TEI); POST /embed is shared with the native API."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import NonnegError, NotReady, Overloaded
from nonneg_core.version import __version__
from nonneg_server.api import route as api
from nonneg_server.api.native_request import is_mixed
from nonneg_server.api.route import documented, embedding, health
from nonneg_server.models.served_models import check_alive, check_ready
from nonneg_server.pipeline.request_pipeline import Answer, reply, serve, written
from nonneg_server.requests.bodies import read_object
from nonneg_server.requests.inputs import Incoming, Limits, each, input_from
from nonneg_server.requests.parameters import ModelName, Parameters, PositiveCount, from_json


class TeiEmbedRequest(BaseModel):
    """The body of POST /embed with `inputs`, and of POST /embed_sparse; `model` and `top_k` are ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Annotated[
        Any,
        Field(description="One or a list: base64, data URIs, URLs; all else is text."),
    ]
    dimensions: PositiveCount | None = None
    normalize: bool = True
    truncate: Annotated[bool | None, Field(description="Of a text that is too long, read the first words.")] = None
    truncation_direction: Annotated[
        Literal["Right", "right"] | None, Field(description="The end of a text is what is left out.")
    ] = None
    prompt_name: Annotated[None, Field(description="Images take no prompts.")] = None
    model: ModelName = None
    top_k: PositiveCount | None = None


ErrorType = Literal["validation", "overloaded", "unhealthy", "backend"]


class TeiFailure(api.Shape):
    """TEI's error body."""

    error: str
    error_type: ErrorType


class TeiSparseValue(api.Shape):
    index: int
    value: float


class TeiInfo(api.Shape):
    model_id: str
    model_sha: str
    model_dtype: str
    model_type: dict[str, Any]
    served_model_name: str
    embedding_size: int
    max_client_batch_size: int
    max_concurrent_requests: int
    tokenization_workers: int
    payload_limit: int
    version: str


ASKED = {"inputs": [api.URI], "dimensions": 8}
EMBEDDED = [[0.816, 0, 0, 0.408, 0, 0, 0, 0.41]]
SPARSE: list[list[TeiSparseValue]] = [
    [{"index": 0, "value": 0.816}, {"index": 3, "value": 0.408}, {"index": 7, "value": 0.41}]
]


# TEI's embed: `inputs` holds images, the answer is a bare list of vectors.


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
    """Return the images and what is asked of them; one bad image fails the request, for its error has no place here."""
    request = from_json(TeiEmbedRequest, given)
    entries = request.inputs if isinstance(request.inputs, list) else [request.inputs]
    parameters = Parameters(
        model=request.model,
        dimensions=request.dimensions,
        top_k=request.top_k,
        normalize=request.normalize,
        format="dense",
        errors="fail",
    )
    return each(entries, "inputs", limits, input_from, truncate=request.truncate is True), parameters


def write(answer: Answer) -> bytes:
    """Return one list of numbers an image."""
    return orjson.dumps(list(answer.rows), option=orjson.OPT_SERIALIZE_NUMPY)


def write_sparse(answer: Answer) -> bytes:
    """Return the active dimensions of each image."""
    rows = [[{"index": int(i), "value": z[i]} for i in z.nonzero()[0]] for z in answer.rows]
    return orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)


def error_body(error: NonnegError, _: str) -> TeiFailure:
    """Return TEI's error: a text, and which of TEI's own types it is."""
    kind: ErrorType = "backend" if error.status >= 500 else "validation"
    if isinstance(error, Overloaded):
        kind = "overloaded"
    elif isinstance(error, NotReady):
        kind = "unhealthy"
    return {"error": str(error), "error_type": kind}


# TEI's routes: POST / and /embed_sparse, GET /info and /health; POST /embed is shared with the native API.

router = APIRouter(route_class=api.Route, tags=["TEI"])


@router.post("/embed_sparse", summary="Embed images; only their active dimensions are answered")
@embedding
@documented(
    list[list[TeiSparseValue]],
    SPARSE,
    body=api.json_body(TeiEmbedRequest, ASKED),
    says="The active dimensions of each image.",
)
async def post_embed_sparse(request: Request) -> Response:
    return await _embedded(request, write_sparse)


@router.post("/", summary="Embed images: /embed where Hugging Face's InferenceClient looks for it")
@embedding
@documented(list[list[float]], EMBEDDED, body=api.json_body(TeiEmbedRequest, ASKED), says="A list of vectors.")
async def post_root(request: Request) -> Response:
    request.scope["state"]["dialect"] = TEI
    return await _embedded(request, write)


async def _embedded(request: Request, write: Callable[[Answer], bytes]) -> Response:
    images, parameters = read(await read_object(request), request.app.state.settings.limits)
    answer = await serve(request, images, parameters, field="inputs")
    return reply(await written(answer, write), answer)


@router.get("/health", summary="Alive and ready, as TEI says it: with an empty body")
@health
@documented(says="Everything is working; the body is empty.")
async def get_health(request: Request) -> Response:
    check_alive(request.app.state)
    check_ready(request.app.state)
    return Response()


@router.get("/info", summary="The default model and the limits, as TEI names them")
@documented(TeiInfo, api.EXAMPLES["tei_info"])
async def get_info(request: Request) -> Response:
    settings, engine = request.app.state.settings, request.app.state.registry.get()
    manifest = engine.bundle.manifest
    info: TeiInfo = {
        "model_id": manifest.name,
        "model_sha": manifest.fingerprint,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "model"}},
        "served_model_name": manifest.name,
        "embedding_size": manifest.dimensions,
        "max_client_batch_size": settings.max_images,
        "max_concurrent_requests": settings.queue,
        "tokenization_workers": engine.threads,
        "payload_limit": settings.max_body,
        "version": __version__,
    }
    return api.json_response(info)


def _claims(given: dict[str, Any]) -> bool:
    """Return whether a body of POST /embed is TEI's: `inputs` without what only the native API knows."""
    return "inputs" in given and "images" not in given and not is_mixed(given)


_PREFIXES = ("/info", "/health", "/embed_sparse")
_GUEST = api.Guest(_claims, TeiEmbedRequest, read, write, "inputs")
TEI = api.Dialect("tei", _PREFIXES, error_body, TeiFailure, tuple(router.routes), _GUEST)
