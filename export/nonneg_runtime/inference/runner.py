"""What runs an encoder: its graph's inputs, the providers people name, the golden vector it must answer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from nonneg_core.arrays import Doubles, Floats
from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_core.pixels.view import Pixels
from nonneg_runtime.bundle.evidence import Golden
from nonneg_runtime.bundle.manifest import Manifest

INPUT, OUTPUT = "pixels", "embedding"


def test_pattern(size: int) -> Pixels:
    """Return the golden input: smooth waves in three colours, the same integers on every machine."""
    y, x = np.mgrid[0:size, 0:size].astype(np.int64)
    waves = [(x * (c + 2) + y * (3 - c)) * 256 // size % 512 for c in range(3)]
    pattern = np.stack([np.where(w < 256, w, 511 - w) for w in waves], axis=-1)
    return pattern.astype(np.uint8)[None]  # (1, size, size, 3)


# Execution providers: the names people give them, and the refusal of one that would not be what runs.

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

    def run(self, pixels: Pixels) -> Floats:
        """Return the raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""


def nodes_by_provider(session: Any) -> Counter[str]:
    """Return how many of the encoder's nodes each provider computes; nothing where the runtime does not tell."""
    tell = getattr(session, "get_provider_graph_assignment_info", list)
    return Counter(part.ep_name for part in tell() for _ in part.get_nodes())


def check_provider(provider: str, nodes: Mapping[str, int]) -> None:
    """Refuse a provider that is there and leaves most of the encoder to others: it is not what runs."""
    mine, others = nodes.get(provider, 0), sum(nodes.values())
    if 2 * mine < others:
        most = max(nodes, key=lambda name: nodes[name])
        raise provider_refused(
            provider, f"it would compute {mine} of the encoder's {others} nodes, and {most} {nodes[most]}"
        )


def provider_refused(provider: str, instead: str) -> ConfigInvalid:
    """Return the error for a provider that is not what would run."""
    return ConfigInvalid(
        f"{provider} was asked for but {instead}",
        fix="install the runtime that has it (`nonneg doctor` lists them) or ask for another provider",
        field="provider",
        value=provider,
    )


# The golden vector: what the encoder answered to the test pattern at its export, and how it is tested elsewhere.


def golden_cosine(runner: Runner, manifest: Manifest) -> float:
    """Return the cosine between the recorded vector of the test pattern and the one that `runner` computes."""
    return cosine_to(manifest.golden, runner.run(test_pattern(manifest.view.size))[0])


def check_golden(runner: Runner, manifest: Manifest) -> float:
    """Return the golden cosine; raises CheckFailed when it is below the recorded tolerance."""
    return checked_cosine(manifest.golden, golden_cosine(runner, manifest), manifest.name)


def check_text(vector: Floats, recorded: Golden, name: str) -> float:
    """Return the same of a text tower, which answered `vector` to the text of its self-test."""
    return checked_cosine(recorded, cosine_to(recorded, vector), name)


def checked_cosine(recorded: Golden, similarity: float, name: str) -> float:
    """Return the cosine, unless it is below what was recorded."""
    if not similarity >= recorded.tolerance:
        raise CheckFailed(
            f"{name} fails its self-test: cosine {similarity:.6f} to the exporter's vector, less than "
            f"{recorded.tolerance}",
            fix="reinstall onnxruntime, or export the bundle again on this machine; `nonneg doctor` says more",
            value=similarity,
            limit=recorded.tolerance,
        )
    return similarity


def cosine_to(recorded: Golden, vector: Floats) -> float:
    """Return the cosine between the recorded vector and this one."""
    expected = np.zeros(len(vector))
    expected[list(recorded.indices)] = recorded.values
    return cosine(expected, vector.astype(np.float64))


def cosine(a: Doubles, b: Doubles) -> float:
    """Return the cosine of two vectors; two zero vectors agree."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else float(not a.any() and not b.any())
