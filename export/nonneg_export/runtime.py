"""The encoder, opened the one way nonneg opens it: for calibration, verification and serving alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from nonneg_client.errors import BundleInvalid, ConfigInvalid
from nonneg_client.pixels.graph import INPUT, OUTPUT, test_pattern
from nonneg_client.pixels.view import Pixels

__all__ = ["CPU", "INPUT", "OPENVINO", "OUTPUT", "PROVIDERS", "Runner", "Session", "open_session", "test_pattern"]

CPU, OPENVINO = "CPUExecutionProvider", "OpenVINO"
PROVIDERS: dict[str, tuple[str, ...]] = {  # by the name people give: the one asked for, then what it may fall back on
    "cpu": (CPU,),
    "cuda": ("CUDAExecutionProvider", CPU),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider", CPU),
    "openvino": (OPENVINO,),  # its own runtime, not the provider of ONNX Runtime's
}
BESIDE = "session.optimized_model_external_initializers_file_name"
BESIDE_FROM = "session.optimized_model_external_initializers_min_size_in_bytes"
RECORD = "session.record_ep_graph_assignment_info"  # which provider took which node; older runtimes do not know it


def on_cores(providers: tuple[str, ...] | None) -> bool:
    """Whether what computes is the processor, so that the number of threads says how fast."""
    return providers is None or providers[0] in (CPU, OPENVINO)


class Runner(Protocol):
    """One encoder, loaded; `run` may be called from many threads at once."""

    providers: tuple[str, ...]

    def run(self, pixels: Pixels) -> NDArray[np.float32]:
        """The raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""


def open_session(
    path: Path,
    *,
    threads: int = 1,
    callers: int = 1,
    largest: int = 1,
    providers: tuple[str, ...] | None = None,
    precision: str = "fp32",
) -> Runner:
    """The encoder on what computes it; without `providers`, on what its precision needs, else on the CPU.

    A run computes on `threads` cores, and `callers` threads may run at once; `largest` is the batch to expect on a GPU.
    """
    chosen = providers or PROVIDERS["openvino" if precision == "bf16" else "cpu"]
    if chosen[0] == OPENVINO:
        from nonneg_export.openvino_runtime import OpenVino

        return OpenVino(path, threads=threads, callers=callers, bf16=precision == "bf16")
    if precision == "bf16":
        raise ConfigInvalid(
            f"{path.parent} is to be computed in bf16, and {chosen[0]} does not",
            fix="serve it with --provider openvino, or serve the bundle it was made from",
            field="provider",
            value=chosen[0],
        )
    if chosen[0] != CPU:
        from nonneg_export.device import DeviceSession

        return DeviceSession(path, threads=threads, providers=chosen, largest=largest)
    return Session(path, threads=threads, providers=chosen)


class Session:
    """An encoder in ONNX Runtime."""

    def __init__(
        self,
        path: Path,
        *,
        threads: int = 1,
        providers: tuple[str, ...] = (CPU,),
        written_to: Path | None = None,
        optimised: bool = False,
    ) -> None:
        """`written_to`: put what was optimised there, its weights beside it; `optimised`: such a file is opened."""
        if providers[0] != CPU:
            from nonneg_export import gpu

            gpu.load_libraries()
        if providers[0] not in ort.get_available_providers():
            raise refused(providers[0], f"this ONNX Runtime has only {', '.join(ort.get_available_providers())}")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_DISABLE_ALL if optimised else level.ORT_ENABLE_ALL
        if written_to is not None:
            options.optimized_model_filepath = str(written_to)
            options.add_session_config_entry(BESIDE, "weights")
            options.add_session_config_entry(BESIDE_FROM, "1024")
        # Spinning workers halve everybody's throughput as soon as anything else runs on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        settings: Mapping[str, Mapping[str, str]] = {}
        if providers[0] != CPU:
            options.add_session_config_entry(RECORD, "1")
            settings = gpu.options(path, providers)
        try:
            self._session: Any = ort.InferenceSession(
                str(path),
                options,
                providers=[(name, dict(settings.get(name, {}))) for name in providers],
                enable_fallback=0,  # it would go on with another provider, now or at any later run
            )
        except Exception as error:  # onnxruntime raises its own classes, none of them public
            if providers[0] != CPU:
                raise refused(providers[0], f"ONNX Runtime cannot open {path} with it ({error})") from error
            raise BundleInvalid(f"ONNX Runtime refuses {path} ({error})", fix="export the bundle again") from error
        self.providers: tuple[str, ...] = tuple(self._session.get_providers())
        if self.providers[0] != providers[0]:
            raise refused(providers[0], f"ONNX Runtime runs {self.providers[0]}")
        if providers[0] != CPU:
            check_taken(providers[0], taken(self._session))

    def run(self, pixels: Pixels) -> NDArray[np.float32]:
        """The raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""
        result: NDArray[np.float32] = self._session.run([OUTPUT], {INPUT: pixels})[0]
        return result


def taken(session: Any) -> Counter[str]:
    """How many of the encoder's nodes each provider computes; nothing where the runtime does not tell."""
    tell = getattr(session, "get_provider_graph_assignment_info", list)
    return Counter(part.ep_name for part in tell() for _ in part.get_nodes())


def check_taken(provider: str, nodes: Mapping[str, int]) -> None:
    """A provider that is there, and leaves most of the encoder to others, is not what runs."""
    mine, others = nodes.get(provider, 0), sum(nodes.values())
    if 2 * mine < others:
        most = max(nodes, key=lambda name: nodes[name])
        raise refused(provider, f"it would compute {mine} of the encoder's {others} nodes, and {most} {nodes[most]}")


def refused(provider: str, instead: str) -> ConfigInvalid:
    """The error for a provider that is not what would run."""
    return ConfigInvalid(
        f"{provider} was asked for but {instead}",
        fix="install the runtime that has it (`nonneg doctor` lists them) or ask for another provider",
        field="provider",
        value=provider,
    )
