"""Stored vectors as a request brings them: dense rows, sparse rows, or one .npy; checked, then one float32 array."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nonneg_core.errors import FingerprintMismatch, MediaUnsupported, ParameterInvalid, RequestInvalid, TooLarge
from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.requests.bodies import json_object
from nonneg_server.requests.parameters import Parameters, from_json, merged

MOST_NUMBERS = 4_000_000
MOST_HEADER = 10_000  # characters of an .npy's; numpy's own limit
_SHAPES = 'a list of rows, each [0.1, 0, …] or {"indices": [3, 17], "values": [0.4, 0.2]}'


@dataclass(frozen=True)
class StoredVectors:
    """Rows, not yet arrays: how wide sparse ones are is known when the model is."""

    rows: Any
    width: int | None
    fingerprint: str | None
    parameters: Parameters


def stored_vectors(body: bytes, content_type: str, query: Parameters) -> StoredVectors:
    """Return JSON `{"vectors": […], "width": …, "fingerprint": …}` or an .npy, with the parameters of /embed."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-npy", "application/octet-stream"):
        return StoredVectors(_npy(body), None, None, query)
    if kind != "application/json":
        raise MediaUnsupported(
            f"a body of {kind!r} is not understood",
            fix="send application/json or application/x-npy",
            field="content-type",
            value=kind,
        )
    given = json_object(body)
    if "vectors" not in given:
        raise ParameterInvalid("the body has no vectors", fix=f"send vectors: {_SHAPES}", field="vectors")
    rows, width, fingerprint = (given.pop(name, None) for name in ("vectors", "width", "fingerprint"))
    if width is not None and (not isinstance(width, int) or isinstance(width, bool) or width < 1):
        raise ParameterInvalid(f"width={width!r} is not a whole number above 0", fix="omit it", field="width")
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise ParameterInvalid("fingerprint is not text", fix="omit it", field="fingerprint")
    return StoredVectors(rows, width, fingerprint, merged(query, from_json(Parameters, given)))


def as_array(stored: StoredVectors, manifest: Manifest) -> Vectors:
    """Return the rows as float32 (batch, width), finite, not negative, no wider than the model."""
    if stored.fingerprint not in (None, manifest.fingerprint):
        raise FingerprintMismatch(
            f"these vectors are of {stored.fingerprint}, {manifest.name} makes {manifest.fingerprint}",
            fix="name the model that made them, or omit the fingerprint",
            field="fingerprint",
            value=stored.fingerprint,
        )
    rows = stored.rows
    width = min(stored.width or manifest.dimensions, manifest.dimensions + 1)  # one more is refused below
    check_size(len(rows) if isinstance(rows, (list, np.ndarray)) else 0, width)
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        z = _from_sparse(rows, width)
    else:
        z = _from_dense(rows)
    if z.shape[1] > manifest.dimensions:
        raise ParameterInvalid(
            f"these vectors have {z.shape[1]} dimensions, {manifest.name} has {manifest.dimensions}",
            fix="name the model that made them",
            field="vectors",
            value=int(z.shape[1]),
            limit=manifest.dimensions,
        )
    if not np.isfinite(z).all() or (z < 0).any():
        raise ParameterInvalid(
            "vectors holds numbers below zero or not finite", fix="send vectors that /embed made", field="vectors"
        )
    return z


def check_size(rows: int, width: int, field: str = "vectors") -> None:
    """Refuse vectors of too many numbers, all lengths together: a few bytes may stand for many."""
    if rows * width > MOST_NUMBERS:
        raise TooLarge(
            f"{rows} vectors of {width} dimensions are {rows * width} numbers, the limit is {MOST_NUMBERS}",
            fix=f"send at most {MOST_NUMBERS // width} at once, or ask for fewer and shorter lengths",
            field=field,
            value=rows * width,
            limit=MOST_NUMBERS,
        )


def _npy(body: bytes) -> NDArray[Any]:
    """Read rows as numpy.save writes them: neither pickled objects nor an archive of several."""
    if not body.startswith(npy.MAGIC_PREFIX):
        raise _not_npy()
    try:
        rows = npy.read_array(io.BytesIO(body), allow_pickle=False, max_header_size=MOST_HEADER)
    except Exception:  # numpy reads the header as Python: tokens, literals, types, each fails in its own way
        raise _not_npy() from None
    if rows.ndim != 2:
        raise _malformed()
    return rows


def _not_npy() -> RequestInvalid:
    return RequestInvalid("the body is not an .npy of numbers", fix="send what numpy.save writes", field="body")


def _from_dense(rows: Any) -> Vectors:
    try:
        z = np.asarray(rows)
        if z.dtype.kind not in "fiu":
            raise ValueError("not numbers")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused
            z = z.astype(np.float32, copy=False)
    except (ValueError, TypeError, OverflowError):
        raise _malformed() from None
    if z.ndim != 2 or 0 in z.shape:
        raise _malformed()
    return z


def _from_sparse(rows: list[Any], width: int) -> Vectors:
    z = np.zeros((len(rows), width), np.float32)
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != {"indices", "values"}:
            raise _malformed()
        indices, values = _list(row["indices"], "iu", np.int64), _list(row["values"], "fiu", np.float32)
        if indices.shape != values.shape:
            raise _malformed()
        if indices.size and (indices.min() < 0 or indices.max() >= width or (np.diff(indices) <= 0).any()):
            raise ParameterInvalid(
                f"vectors[{i}].indices are not sorted, unique and within 0..{width - 1}",
                fix="send them as /embed answers them; name the `width` of shortened ones",
                field=f"vectors[{i}].indices",
                limit=width - 1,
            )
        z[i, indices] = values
    return z


def _list(numbers: Any, kinds: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a flat list of numbers of these kinds."""
    try:
        array = np.asarray(numbers)
        if array.ndim != 1 or (array.size and array.dtype.kind not in kinds):
            raise ValueError("not a list of numbers")
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        raise _malformed() from None


def _malformed() -> ParameterInvalid:
    return ParameterInvalid("vectors are not rows of numbers", fix=f"send {_SHAPES}", field="vectors")
