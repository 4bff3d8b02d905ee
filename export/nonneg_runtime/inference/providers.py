"""Execution providers: the names people give them, and the refusal of one that would not be what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import Pixels

CPU, OPENVINO = "CPUExecutionProvider", "OpenVINO"
PROVIDERS: dict[str, tuple[str, ...]] = {  # by the name people give: the one asked for, then what it may fall back on
    "cpu": (CPU,),
    "cuda": ("CUDAExecutionProvider", CPU),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider", CPU),
    "openvino": (OPENVINO,),  # its own runtime, not the provider of ONNX Runtime's
}


def provider_names(name: str) -> tuple[str, ...]:
    """Return the providers behind the name that people give."""
    if name not in PROVIDERS:
        raise ConfigInvalid(
            f"{name} is not a provider", fix=f"pass one of {', '.join(PROVIDERS)}", field="provider", value=name
        )
    return PROVIDERS[name]


def on_cores(providers: tuple[str, ...] | None) -> bool:
    """Return whether what computes is the processor, so that the number of threads says how fast."""
    return providers is None or providers[0] in (CPU, OPENVINO)


class Runner(Protocol):
    """One encoder, loaded; `run` may be called from many threads at once."""

    providers: tuple[str, ...]

    def run(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return the raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""


def taken(session: Any) -> Counter[str]:
    """Return how many of the encoder's nodes each provider computes; nothing where the runtime does not tell."""
    tell = getattr(session, "get_provider_graph_assignment_info", list)
    return Counter(part.ep_name for part in tell() for _ in part.get_nodes())


def check_taken(provider: str, nodes: Mapping[str, int]) -> None:
    """Refuse a provider that is there and leaves most of the encoder to others: it is not what runs."""
    mine, others = nodes.get(provider, 0), sum(nodes.values())
    if 2 * mine < others:
        most = max(nodes, key=lambda name: nodes[name])
        raise refused(provider, f"it would compute {mine} of the encoder's {others} nodes, and {most} {nodes[most]}")


def refused(provider: str, instead: str) -> ConfigInvalid:
    """Return the error for a provider that is not what would run."""
    return ConfigInvalid(
        f"{provider} was asked for but {instead}",
        fix="install the runtime that has it (`nonneg doctor` lists them) or ask for another provider",
        field="provider",
        value=provider,
    )
