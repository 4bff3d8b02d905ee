"""The list of a model's dimensions, page by page; nothing here waits."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any
from urllib.parse import urlencode

from nonneg_client.wire.transport import model_path

PAGE = 1000  # dimensions of one request


def list_dimensions(model: str, asked: Mapping[str, str]) -> Generator[str, Any, list[dict[str, Any]]]:
    """Yield the path of each page of a model's dimensions, take its answer; all of them together are the result."""
    found: list[dict[str, Any]] = []
    while True:
        query = urlencode({**asked, "offset": len(found), "limit": PAGE})
        answer = yield f"{model_path(model)}/dimensions?{query}"
        found += answer["dimensions"]
        if not answer["dimensions"] or len(found) >= answer["total"]:
            return found


def asked_of_dimensions(sort: str, named: bool, contains: str | None) -> dict[str, str]:
    """Return what is asked of the list of dimensions, as a URL has it."""
    asked = {"sort": sort, "named": str(named).lower()}
    return asked if contains is None else {**asked, "contains": contains}
