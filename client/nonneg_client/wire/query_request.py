"""POST /query as a client sends it: the expression with the bytes of its photos, and the query that comes back."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from nonneg_client.query import Query
from nonneg_client.sources.images import items
from nonneg_core.errors import DataInvalid, ResponseInvalid
from nonneg_core.expressions.expression import Expression, Photo
from nonneg_core.expressions.resolve import Resolved, SparseRow

PATH = "/query"
JSON = {"Content-Type": "application/json"}


def request_of(expression: Expression, dimensions: int | None, model: str | None) -> bytes:
    """Return the body of the request; photos are read here, as `embed` reads them."""
    images = {photo.name: base64.b64encode(_bytes(photo)).decode() for photo in expression.photos()}
    asked = {"images": images, "dimensions": dimensions, "model": model}
    given = {name: value for name, value in asked.items() if value}
    return json.dumps({"expression": str(expression), **given}).encode()


def query_of(answer: Any, expression: Expression) -> Query:
    """Return the query in the server's answer."""
    try:
        dimensions = int(answer["dimensions"])
        parts = tuple(_row(part, dimensions) for part in answer["parts"])
        without = tuple(int(unwanted["dimension"]) for unwanted in answer["without"])
        return Query(
            expression, Resolved(parts, without), dimensions, str(answer["fingerprint"]), float(answer["chance"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ResponseInvalid(
            f"the server's answer cannot be read as a query ({type(error).__name__}: {error})",
            fix="check that the address is a nonneg server of this version",
        ) from error


def _bytes(photo: Photo) -> bytes:
    found = list(items(photo.name))
    if len(found) != 1:
        raise DataInvalid(
            f"{photo} stands for {len(found)} images", fix="name one photo, not a folder or a pattern, at each place"
        )
    return found[0].load()


def _row(part: Any, dimensions: int) -> SparseRow:
    indices, values = np.asarray(part["indices"], np.int32), np.asarray(part["values"], np.float32)
    if indices.shape != values.shape or indices.ndim != 1 or not len(indices) or not np.isfinite(values).all():
        raise ValueError("indices and finite values differ in length")
    if indices[0] < 0 or indices[-1] >= dimensions or (np.diff(indices) <= 0).any():
        raise ValueError(f"indices are not sorted, unique and below {dimensions}")
    return indices, values
