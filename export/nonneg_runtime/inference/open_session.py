"""Opening an encoder on the provider that was asked for, or on the one its precision needs."""

from __future__ import annotations

from pathlib import Path

from nonneg_core.errors import ConfigInvalid
from nonneg_runtime.inference.providers import CPU, OPENVINO, PROVIDERS, Runner
from nonneg_runtime.inference.session import Session


def open_session(
    path: Path,
    *,
    threads: int = 1,
    callers: int = 1,
    largest: int = 1,
    providers: tuple[str, ...] | None = None,
    precision: str = "fp32",
) -> Runner:
    """Return the encoder on what computes it; without `providers`, on what its precision needs, else on the CPU.

    A run computes on `threads` cores, and `callers` threads may run at once; `largest` is the batch to expect on a GPU.
    """
    chosen = providers or PROVIDERS["openvino" if precision == "bf16" else "cpu"]
    if chosen[0] == OPENVINO:
        from nonneg_runtime.inference.openvino_session import OpenVino

        return OpenVino(path, threads=threads, callers=callers, bf16=precision == "bf16")
    if precision == "bf16":
        raise ConfigInvalid(
            f"{path.parent} is to be computed in bf16, and {chosen[0]} does not",
            fix="serve it with --provider openvino, or serve the bundle it was made from",
            field="provider",
            value=chosen[0],
        )
    if chosen[0] != CPU:
        from nonneg_runtime.inference.device_session import DeviceSession

        return DeviceSession(path, threads=threads, providers=chosen, largest=largest)
    return Session(path, threads=threads, providers=chosen)
