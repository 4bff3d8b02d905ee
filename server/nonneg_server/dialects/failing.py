"""Which dialect a path speaks, and so which shape its errors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nonneg_client.errors import NonnegError
from nonneg_server.dialects import cohere, kserve, openai

ErrorBody = Callable[[NonnegError, str], dict[str, Any]]


def native(error: NonnegError, request_id: str) -> dict[str, Any]:
    return {"error": error.body(), "request_id": request_id}


def error_body_for(path: str) -> ErrorBody:
    """The writer of error bodies for a path."""
    if path.startswith("/v1/"):
        return openai.error_body
    if path == "/v2/embed":
        return cohere.error_body
    if path == "/v2" or path.startswith("/v2/"):
        return kserve.error_body
    return native
