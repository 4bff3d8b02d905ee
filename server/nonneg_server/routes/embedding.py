"""Marks the routes that embed the images they are sent: a full queue refuses their requests before the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi.routing import APIRoute

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
_MARK = "embeds_images"


def embedding(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint: what it is sent goes through the queue."""
    setattr(endpoint, _MARK, True)
    return endpoint


def embeds(route: APIRoute) -> bool:
    """Whether the route's endpoint is marked."""
    return getattr(route.endpoint, _MARK, False)
