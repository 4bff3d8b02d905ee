"""KServe's v2 tensors: image bytes, pixels or texts in, a tensor of embeddings out, in JSON or in binary."""

import base64
import binascii
import math
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import ImageTooLarge, NonnegError, ParameterInvalid, RequestInvalid
from nonneg_core.version import __version__
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.api import kserve_schemas as schemas
from nonneg_server.pipeline.request_pipeline import Answer
from nonneg_server.requests.bodies import json_object
from nonneg_server.requests.inputs import Incoming, Limits, ReadyImage, check_count, encoded_within, sized, text_from
from nonneg_server.requests.parameters import Parameters, from_json

IMAGE, PIXELS, TEXT = "image", "pixels", "text"
DEEPEST = 5  # [batch][height][width][channel], and a look that finds nothing more to flatten


def photos(tensor: schemas.Tensor, tail: bytes, limits: Limits, max_pixels: int) -> list[Incoming | ReadyImage]:
    """Return the images of one tensor; `tail` is what follows the JSON."""
    size = tensor.parameters.get("binary_data_size")
    if set(tensor.parameters) - {"binary_data_size"}:
        raise ParameterInvalid(
            "inputs[0].parameters has unknown names", fix="known: binary_data_size", field="inputs[0]"
        )
    if size is not None and (size != len(tail) or tensor.data is not None):
        raise RequestInvalid(
            f"binary_data_size={size!r} but {len(tail)} bytes follow the JSON",
            fix="send the whole tensor, and only it",
            field="inputs[0].parameters.binary_data_size",
            value=len(tail),
        )
    if size is None and tail:
        raise RequestInvalid(
            f"{len(tail)} bytes follow the JSON",
            fix="declare them with binary_data_size",
            field="body",
            value=len(tail),
        )
    if tensor.shape:
        check_count(tensor.shape[0] if tensor.name == PIXELS else math.prod(tensor.shape), limits.images, "inputs[0]")
    if (tensor.name, tensor.datatype) == (IMAGE, "BYTES"):
        if size is not None:
            pictures: list[Incoming | ReadyImage] = [sized(piece, limits) for piece in _split(tail, limits.images)]
        else:
            pictures = [_bytes(entry, limits) for entry in _flat(tensor.data, limits.images)]
        if math.prod(tensor.shape) != len(pictures):
            raise _mismatch(tensor, f"{len(pictures)} images")
        return pictures
    if (tensor.name, tensor.datatype) == (TEXT, "BYTES"):
        entries = _flat(tensor.data, limits.images) if size is None else _split(tail, limits.images)
        if math.prod(tensor.shape) != len(entries):
            raise _mismatch(tensor, f"{len(entries)} texts")
        return [_text(entry, f"inputs[0][{i}]") for i, entry in enumerate(entries)]
    if (tensor.name, tensor.datatype) == (PIXELS, "UINT8"):
        return list(_pixels(tensor, tail if size is not None else None, max_pixels))
    raise ParameterInvalid(
        f"input {tensor.name!r} of {tensor.datatype} is not known",
        fix=f"send {IMAGE} (BYTES, files), {PIXELS} (UINT8, [batch, height, width, 3]) or {TEXT} (BYTES, UTF-8)",
        field="inputs[0]",
        value=tensor.name,
    )


def _split(tail: bytes, most: int) -> list[bytes]:
    """Read BYTES in binary: each element is its length in four little-endian bytes, then itself."""
    pieces: list[bytes] = []
    at = 0
    while at < len(tail):
        end = at + 4 + int.from_bytes(tail[at : at + 4], "little")
        if at + 4 > len(tail) or end > len(tail):
            raise RequestInvalid(
                "the BYTES tensor breaks off", fix="write each length as four little-endian bytes", field="inputs[0]"
            )
        pieces.append(tail[at + 4 : end])
        check_count(len(pieces), most, "inputs[0]")
        at = end
    return pieces


def _bytes(entry: Any, limits: Limits) -> bytes | NonnegError:
    """Read BYTES in JSON, which cannot be raw: the image is in base64."""
    if isinstance(entry, str) and (too_large := encoded_within(entry, limits)):
        return too_large
    try:
        return base64.b64decode(entry, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return ParameterInvalid(
            "a BYTES element in JSON is not base64",
            fix="encode the file with base64, or send binary",
            field="inputs[0]",
        )


def _text(entry: Any, field: str) -> Incoming:
    """Read BYTES of text as UTF-8; in JSON they are strings."""
    try:
        return text_from(entry.decode() if isinstance(entry, bytes) else entry, field)
    except UnicodeDecodeError as error:
        return ParameterInvalid(
            f"{field} is not UTF-8: see byte {error.start}", fix="encode the text as UTF-8", field=field
        )


def _flat(data: Any, most: int | None = None) -> list[Any]:
    """Return the leaves of a list of lists of …, as deep as a batch of pixels goes."""
    if not isinstance(data, list):
        raise ParameterInvalid("inputs[0] has no data", fix="send a list, or binary_data_size", field="inputs[0].data")
    entries: list[Any] = data
    for _ in range(DEEPEST):
        if most is not None:
            check_count(len(entries), most, "inputs[0]")
        if not any(isinstance(entry, list) for entry in entries):
            return entries
        entries = [leaf for entry in entries for leaf in (entry if isinstance(entry, list) else [entry])]
    raise ParameterInvalid("inputs[0].data is nested too deep", fix="send a flat list", field="inputs[0].data")


def _pixels(tensor: schemas.Tensor, tail: bytes | None, max_pixels: int) -> list[Image.Image]:
    shape = tensor.shape
    if len(shape) != 4 or shape[3] != 3 or 0 in shape:
        raise _mismatch(tensor, "[batch, height, width, 3]")
    if shape[1] * shape[2] > max_pixels:
        raise ImageTooLarge(
            f"the images have {shape[2]} x {shape[1]} pixels, more than the limit of {max_pixels}",
            fix=f"send at most {max_pixels} pixels, or raise --max-pixels",
            field="max_pixels",
            value=shape[1] * shape[2],
            limit=max_pixels,
        )
    try:
        flat = np.frombuffer(tail, np.uint8) if tail is not None else np.array(_flat(tensor.data), dtype=np.uint8)
        pixels = flat.reshape(shape)
    except (ValueError, OverflowError, TypeError):
        raise _mismatch(tensor, "what the data holds: whole numbers of 0 to 255") from None
    return [Image.fromarray(image) for image in pixels]


def _mismatch(tensor: schemas.Tensor, expected: str) -> ParameterInvalid:
    return ParameterInvalid(
        f"{tensor.name} has the shape {tensor.shape}, which is not {expected}",
        fix="send shape and data that agree",
        field="inputs[0].shape",
    )


# KServe's v2 protocol: tensors of image bytes or of pixels in, a tensor of embeddings out, in JSON or binary.

HEADER_LENGTH = "inference-header-content-length"
EMBEDDING, NNZ, ERROR = "embedding", "nnz", "error"
DIGITS = 18  # of a length; Python refuses to read thousands of them
_TYPES = {EMBEDDING: "FP32", NNZ: "INT32", ERROR: "BYTES"}
_OURS = {"dimensions", "top_k", "normalize", "errors"}


def read(
    body: bytes, header_length: str | None, limits: Limits, max_pixels: int
) -> tuple[schemas.InferRequest, list[Incoming | ReadyImage], Parameters]:
    """Return the request, its images and what is asked of them; binary tensors stand behind the JSON."""
    length = len(body) if header_length is None else _length(header_length, len(body))
    request = from_json(schemas.InferRequest, json_object(body[:length]))
    return request, photos(request.inputs[0], body[length:], limits, max_pixels), _parameters(request)


def _parameters(request: schemas.InferRequest) -> Parameters:
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
    options = {name: value for name, value in request.parameters.items() if name in _OURS}
    parameters = from_json(Parameters, {"errors": "fail", **options, "format": "dense"})
    if parameters.errors == "item" and request.outputs and all(output.name != ERROR for output in request.outputs):
        raise ParameterInvalid(
            "errors=item without the output that has them", fix=f"ask for the output {ERROR}, too", field="outputs"
        )
    return parameters


def write(request: schemas.InferRequest, answer: Answer) -> tuple[bytes, int | None]:
    """Return the response and, where a binary tensor was asked for, the length of its JSON."""
    tensors = _tensors(answer)
    default = request.parameters.get("binary_data_output") is True
    unasked = (EMBEDDING, ERROR) if answer.parameters.errors == "item" else (EMBEDDING,)
    selection = request.outputs or [schemas.Output(name=name) for name in unasked]
    outputs: list[dict[str, Any]] = []
    tail: list[bytes] = []
    for output in selection:
        tensor = tensors[output.name]
        entry: dict[str, Any] = {"name": output.name, "shape": tensor.shape, "datatype": _TYPES[output.name]}
        if output.parameters.get("binary_data", default) is True:
            tail.append(_binary(tensor))
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = tensor.tolist() if output.name == ERROR else tensor.ravel()
        outputs.append(entry)
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


def server_metadata() -> schemas.KServeServer:
    """Return what this server is and which extensions it has."""
    return {"name": "nonneg", "version": __version__, "extensions": schemas.EXTENSIONS}


def model_metadata(manifest: Manifest) -> schemas.KServeModel:
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


def error_body(error: NonnegError, _: str) -> schemas.KServeFailure:
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
