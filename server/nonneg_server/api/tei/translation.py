"""TEI's embed: `inputs` holds images, the answer is a bare list of vectors."""

from __future__ import annotations

from typing import Any

import orjson

from nonneg_core.errors import NonnegError, NotReady, Overloaded
from nonneg_server.api.tei.schemas import ErrorType, TeiEmbedRequest, TeiFailure
from nonneg_server.embedding import Answer
from nonneg_server.requests.images import Incoming, Limits, check_count
from nonneg_server.requests.parameters import Parameters, from_json
from nonneg_server.requests.texts import input_from


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
    """Return the images and what is asked of them; one bad image fails the request, for its error has no place here."""
    wanted = from_json(TeiEmbedRequest, given)
    entries = wanted.inputs if isinstance(wanted.inputs, list) else [wanted.inputs]
    parameters = Parameters(
        model=wanted.model,
        dimensions=wanted.dimensions,
        top_k=wanted.top_k,
        normalize=wanted.normalize,
        format="dense",
        errors="fail",
    )
    check_count(len(entries), limits.images, "inputs")
    truncate = wanted.truncate is True
    return [input_from(entry, f"inputs[{i}]", limits, truncate=truncate) for i, entry in enumerate(entries)], parameters


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
