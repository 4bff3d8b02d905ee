"""Which dialect a path speaks, and so which shape its errors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nonneg_core.errors import NonnegError
from nonneg_server.api.cohere import translation as cohere
from nonneg_server.api.kserve import translation as kserve
from nonneg_server.api.openai import translation as openai

ErrorBody = Callable[[NonnegError, str], dict[str, Any]]


def native(error: NonnegError, request_id: str) -> dict[str, Any]:
    return {"error": error.body(), "request_id": request_id}


WRITERS: dict[str, ErrorBody] = {
    "native": native,
    "openai": openai.error_body,
    "cohere": cohere.error_body,
    "kserve": kserve.error_body,
}


def dialect_of(path: str) -> str:
    """The dialect's name."""
    if path.startswith("/v1/"):
        return "openai"
    if path == "/v2/embed":
        return "cohere"
    return "kserve" if path == "/v2" or path.startswith("/v2/") else "native"
