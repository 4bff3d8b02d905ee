"""The embedding server: request -> decode -> preprocess -> encode -> shorten -> respond."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_client.local import Encoder

__all__ = ["Encoder"]

# the commands should not wait for the runtime
__getattr__, __dir__ = lazy_names(__name__, {"Encoder": "nonneg_client.local"})
