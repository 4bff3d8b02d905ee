"""The wire: how images become a request and how an answer becomes vectors or a typed error. No input or output here."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nonneg_client.wire.answer_limits import UNREADABLE, dimensions_of, readable
from nonneg_core.errors import BY_TYPE, NonnegError, ResponseInvalid, Unauthorized
from nonneg_vectors.storage.results import BatchResult, Failure, SparseVector

PATH = "/embed"
MSGPACK = "application/msgpack"
ACCEPT = f"{MSGPACK}, application/json;q=0.5"  # msgpack costs a hundredth of JSON's time to read


@dataclass(frozen=True)
class Options:
    """What is asked of the server besides the images; None leaves it to the server."""

    dimensions: int | None = None
    top_k: int | None = None
    normalize: bool = True
    model: str | None = None
    truncate: bool = False  # of texts that are too long, read the first words

    def params(self) -> dict[str, str]:
        options = {"dimensions": self.dimensions, "top_k": self.top_k, "model": self.model}
        query = {name: str(value) for name, value in options.items() if value is not None}
        return query if self.normalize else {**query, "normalize": "false"}


@dataclass(frozen=True)
class Request:
    """Everything a transport needs to send."""

    params: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes


def build(inputs: Sequence[bytes | str], options: Options) -> Request:
    """Build a request: one image as the bare body, several as multipart, where base64 would cost a third more.

    Texts go as JSON, and are never in one batch with images.
    """
    params = {**options.params(), "format": "sparse"}
    texts = [text for text in inputs if isinstance(text, str)]
    if texts:
        body = {"texts": texts, "errors": "item", **({"truncate": True} if options.truncate else {})}
        headers = {"Content-Type": "application/json", "Accept": ACCEPT}
        return Request(params, headers, json.dumps(body).encode())
    images = [image for image in inputs if isinstance(image, bytes)]
    if len(images) == 1:
        return Request(params, {"Content-Type": "application/octet-stream", "Accept": ACCEPT}, images[0])
    boundary = secrets.token_hex(16)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename="image"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    parts = [part for image in images for part in (head, image, b"\r\n")]
    content = b"".join([*parts, f"--{boundary}--\r\n".encode()])
    return Request(params, {"Content-Type": f"multipart/form-data; boundary={boundary}", "Accept": ACCEPT}, content)


def parse(status: int, headers: Mapping[str, str], body: bytes, ids: Sequence[str]) -> BatchResult:
    """Return the results of the images that were sent; raises the error that the server names, or ResponseInvalid."""
    if status != 200:
        raise error_of(status, headers, body)
    with readable("of the native form"):
        content = _content(headers, body)
        dimensions = dimensions_of(content)
        entries = sorted(content["data"], key=lambda entry: entry["index"])
        if len(entries) != len(ids):
            raise ResponseInvalid(
                f"{len(entries)} vectors came for {len(ids)} images", fix="check what answers at this address"
            )
        results = tuple(_result(name, entry, dimensions) for name, entry in zip(ids, entries, strict=True))
        model, fingerprint = str(content["model"]), str(content["fingerprint"])
        return BatchResult(results, model, fingerprint, dimensions, bool(content["normalized"]))


def _content(headers: Mapping[str, str], body: bytes) -> Any:
    if headers.get("content-type", "").startswith(MSGPACK):
        import ormsgpack

        return ormsgpack.unpackb(body)
    return json.loads(body)


def _result(name: str, entry: Mapping[str, Any], dimensions: int) -> SparseVector | Failure:
    import numpy as np

    if "error" in entry:
        return Failure(name, _named(entry["error"]))
    if isinstance(entry["indices"], bytes):
        indices, values = np.frombuffer(entry["indices"], "<i4"), np.frombuffer(entry["values"], "<f4")
    else:
        indices, values = np.asarray(entry["indices"], np.int32), np.asarray(entry["values"], np.float32)
    if indices.shape != values.shape or indices.ndim != 1:
        raise ValueError("indices and values differ in length")
    if len(indices) and (indices[0] < 0 or indices[-1] >= dimensions or (np.diff(indices) <= 0).any()):
        raise ValueError(f"indices are not sorted, unique and below {dimensions}")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("values are not finite and non-negative")
    return SparseVector(name, indices, values)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> NonnegError:
    """Return the typed error of a response that is not a success."""
    try:
        content = json.loads(body)
        error = _named(content["error"], status)
        error.request_id = _text(content.get("request_id"))
    except UNREADABLE:
        kind = _by_status(status)
        error = kind(f"the server answered {status}: {body[:200].decode('utf-8', 'replace')!r}")
    error.retry_after = retry_after(headers)
    if isinstance(error, Unauthorized):  # the server names headers, which this client writes
        error.fix = "give --api-key (in Python: api_key=), or set NONNEG_API_KEY"
    return error


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header; a date in it is not understood and ignored."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _named(body: Mapping[str, Any], status: int | None = None) -> NonnegError:
    kind = BY_TYPE.get(str(body["type"])) or (_by_status(status) if status else NonnegError)
    return kind(
        str(body["message"]),
        fix=_text(body.get("fix")),
        field=_text(body.get("field")),
        value=body.get("value"),
        limit=body.get("limit"),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _by_status(status: int) -> type[NonnegError]:
    """Return what stands highest in the tree for a status: other servers and proxies in between speak only in these."""
    if status in (502, 503):
        return BY_TYPE["not_ready"]
    if status < 400:
        return ResponseInvalid
    matching = (kind for kind in BY_TYPE.values() if kind.status == status and kind is not NonnegError)
    return next(matching, BY_TYPE["request_invalid"] if status < 500 else NonnegError)
