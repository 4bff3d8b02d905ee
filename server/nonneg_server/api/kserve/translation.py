"""KServe's v2 protocol: tensors of image bytes or of pixels in, a tensor of embeddings out, in JSON or binary."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from nonneg_core.errors import NonnegError, ParameterInvalid, RequestInvalid
from nonneg_core.version import __version__
from nonneg_runtime.manifest import Manifest
from nonneg_server.api.kserve.extensions import EXTENSIONS
from nonneg_server.api.kserve.schemas import InferRequest, KServeFailure, KServeModel, KServeServer, Output
from nonneg_server.api.kserve.tensors import IMAGE, PIXELS, TEXT, photos
from nonneg_server.embedding import Answer
from nonneg_server.requests.images import Incoming, Limits, ReadyImage
from nonneg_server.requests.json_body import json_object
from nonneg_server.requests.parameters import Parameters, from_json

HEADER_LENGTH = "inference-header-content-length"
EMBEDDING, NNZ, ERROR = "embedding", "nnz", "error"
DIGITS = 18  # of a length; Python refuses to read thousands of them
_TYPES = {EMBEDDING: "FP32", NNZ: "INT32", ERROR: "BYTES"}
_OURS = {"dimensions", "top_k", "normalize", "errors"}


def read(
    body: bytes, header_length: str | None, limits: Limits, max_pixels: int
) -> tuple[InferRequest, list[Incoming | ReadyImage], Parameters]:
    """Return the request, its images and what is asked of them; binary tensors stand behind the JSON."""
    length = len(body) if header_length is None else _length(header_length, len(body))
    request = from_json(InferRequest, json_object(body[:length]))
    return request, photos(request.inputs[0], body[length:], limits, max_pixels), _parameters(request)


def _parameters(request: InferRequest) -> Parameters:
    for output in request.outputs or []:
        if output.name not in _TYPES:
            raise ParameterInvalid(
                f"output {output.name!r} is not known", fix=f"ask for {', '.join(_TYPES)}", field="outputs"
            )
    unknown = sorted(set(request.parameters) - _OURS - {"binary_data_output"})
    if unknown:
        known = ", ".join(sorted(_OURS))
        raise ParameterInvalid(
            f"parameter {unknown[0]!r} is not known", fix=f"known: {known}", field=f"parameters.{unknown[0]}"
        )
    wanted = {name: value for name, value in request.parameters.items() if name in _OURS}
    parameters = from_json(Parameters, {"errors": "fail", **wanted, "format": "dense"})
    if parameters.errors == "item" and request.outputs and all(output.name != ERROR for output in request.outputs):
        raise ParameterInvalid(
            "errors=item without the output that has them", fix=f"ask for the output {ERROR}, too", field="outputs"
        )
    return parameters


def write(request: InferRequest, answer: Answer) -> tuple[bytes, int | None]:
    """Return the response and, where a binary tensor was asked for, the length of its JSON."""
    tensors = _tensors(answer)
    default = request.parameters.get("binary_data_output") is True
    unasked = (EMBEDDING, ERROR) if answer.parameters.errors == "item" else (EMBEDDING,)
    asked = request.outputs or [Output(name=name) for name in unasked]
    outputs: list[dict[str, Any]] = []
    tail: list[bytes] = []
    for output in asked:
        tensor = tensors[output.name]
        found: dict[str, Any] = {"name": output.name, "shape": tensor.shape, "datatype": _TYPES[output.name]}
        if output.parameters.get("binary_data", default) is True:
            tail.append(_binary(tensor))
            found["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            found["data"] = tensor.tolist() if output.name == ERROR else tensor.ravel()
        outputs.append(found)
    body: dict[str, Any] = {
        "model_name": answer.manifest.name,
        "model_version": answer.manifest.version,
        "outputs": outputs,
        "parameters": {"fingerprint": answer.manifest.fingerprint},
    }
    if request.id is not None:
        body["id"] = request.id
    head = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"".join([head, *tail]), len(head) if tail else None


def _tensors(answer: Answer) -> dict[str, NDArray[Any]]:
    """Return one row an image, in order: zeros where there is an error instead, and its text beside them."""
    z = answer.rows
    texts = np.full(answer.images, "", object)
    for i, error in answer.errors.items():
        texts[i] = f"{error.type}: {error}"
    nnz = np.count_nonzero(z > 0, axis=1).astype("<i4")
    return {EMBEDDING: z.astype("<f4", copy=False), NNZ: nnz, ERROR: texts}


def _binary(tensor: NDArray[Any]) -> bytes:
    """Return the tensor's bytes; of text, each element's length in four bytes before it."""
    if tensor.dtype != object:
        return tensor.tobytes()
    return b"".join(len(raw).to_bytes(4, "little") + raw for raw in (text.encode() for text in tensor))


def server_metadata() -> KServeServer:
    """Return what this server is and which extensions it has."""
    return {"name": "nonneg", "version": __version__, "extensions": EXTENSIONS}


def model_metadata(manifest: Manifest) -> KServeModel:
    """Return a model's inputs and outputs as tensors."""
    return {
        "name": manifest.name,
        "versions": [manifest.version],
        "platform": "onnxruntime_onnx",
        "inputs": [
            {"name": IMAGE, "datatype": "BYTES", "shape": [-1]},
            {"name": PIXELS, "datatype": "UINT8", "shape": [-1, -1, -1, 3]},
            {"name": TEXT, "datatype": "BYTES", "shape": [-1]},
        ],
        "outputs": [
            {"name": EMBEDDING, "datatype": "FP32", "shape": [-1, manifest.dimensions]},
            {"name": NNZ, "datatype": "INT32", "shape": [-1]},
            {"name": ERROR, "datatype": "BYTES", "shape": [-1]},
        ],
    }


def error_body(error: NonnegError, _: str) -> KServeFailure:
    """Return the body of a failure as KServe's clients read it."""
    return {"error": str(error)}


def _length(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS or int(text) > most:
        raise RequestInvalid(
            f"{HEADER_LENGTH}: {text[:40]} does not fit a body of {most} bytes",
            fix="give the JSON's length in bytes",
            field=HEADER_LENGTH,
            value=text[:40],
            limit=most,
        )
    return int(text)
