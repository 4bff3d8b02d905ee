"""The embedding server: request -> decode -> preprocess -> encode -> shorten -> respond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg_client.local import Encoder

__all__ = ["Encoder"]


def __getattr__(name: str) -> Any:
    """`Encoder` is loaded when it is first used: the commands should not wait for the runtime."""
    if name != "Encoder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nonneg_client.local import Encoder

    globals()[name] = Encoder
    return Encoder


def __dir__() -> list[str]:
    return sorted(__all__)
