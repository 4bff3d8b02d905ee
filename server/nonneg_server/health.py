"""Whether the process works, and whether it takes work: what the health routes of every API ask."""

from __future__ import annotations

from typing import Any

from nonneg_core.errors import NotReady


def check_alive(state: Any) -> None:
    """Raise NotReady if the process should be restarted."""
    reason = state.registry.failure_reason()
    if reason is not None:
        raise NotReady(reason, fix="restart this server; it ends by itself")


def check_ready(state: Any) -> None:
    """Raise NotReady unless a model is loaded, has passed its self-test, and takes work."""
    if state.shared.draining:
        raise NotReady("this server is shutting down", fix="ask another one", retry_after=1)
    if state.shared.loading:
        raise still_loading()
    if not state.registry.ready():
        raise NotReady("no model is ready", fix="wait for the model to load", retry_after=1)


def still_loading() -> NotReady:
    """Return the error of every request but for health while models load."""
    return NotReady("the models are loading", fix="wait for /readyz", retry_after=1)
