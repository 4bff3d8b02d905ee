"""An encoder in OpenVINO's own runtime: float32, int8, or bfloat16 where the processor has it.

Left to itself OpenVINO takes as many threads as the host has cores, and bfloat16 wherever it is fast. Here it takes the
threads it is given and the precision that the bundle states, and says so when it cannot.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.errors import BundleInvalid, ConfigInvalid, MissingExtra
from nonneg_core.pixels.view import Pixels
from nonneg_core.terminal.installing import extra_hint
from nonneg_runtime.inference.runner import OPENVINO, OUTPUT, provider_refused

DEVICE = "CPU"


class OpenVino:
    """One compiled model; every thread that runs it has a request of its own."""

    def __init__(self, path: Path, *, threads: int = 1, callers: int = 1, bf16: bool = False) -> None:
        ov = openvino_package()
        core = ov.Core()
        if bf16 and "BF16" not in core.get_property(DEVICE, "OPTIMIZATION_CAPABILITIES"):
            raise _no_bf16("this processor has none")
        streams = callers if threads == 1 else 1  # each computes one image; or all of them the same one
        settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32",
            "INFERENCE_NUM_THREADS": threads * streams,
            "NUM_STREAMS": streams,
            "ENABLE_CPU_PINNING": False,  # the operating system knows what else runs here
        }
        try:
            self.compiled: Any = core.compile_model(str(path), DEVICE, settings)
        except Exception as error:  # openvino raises bare RuntimeErrors
            raise BundleInvalid(
                f"OpenVINO refuses {path} ({str(error).splitlines()[-1]})", fix="use another --provider"
            ) from error
        runs = self.compiled.get_property("INFERENCE_PRECISION_HINT")
        if runs != (ov.Type.bf16 if bf16 else ov.Type.f32):
            raise _no_bf16(f"OpenVINO runs {runs}") if bf16 else provider_refused(OPENVINO, f"it would run {runs}")
        self.providers: tuple[str, ...] = (OPENVINO,)
        self._own = threading.local()

    def run(self, pixels: Pixels) -> Floats:
        """Return the raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""
        request = getattr(self._own, "request", None)
        if request is None:
            request = self._own.request = self.compiled.create_infer_request()
        request.infer({0: np.ascontiguousarray(pixels)}, share_inputs=True)
        rows: Floats = request.get_tensor(OUTPUT).data.copy()  # the request's own memory is used again
        return rows


def openvino_package() -> Any:
    """Return the package, without the one that reports every import of it to its makers."""
    reporter = "openvino_telemetry"
    before = sys.modules.get(reporter)
    absent: Any = None  # to Python: not installed
    sys.modules[reporter] = absent
    try:
        import openvino
    except ImportError:
        raise MissingExtra(
            "OpenVINO is not installed", fix=extra_hint("openvino"), field="provider", value="openvino"
        ) from None
    finally:
        if before is None:
            del sys.modules[reporter]
        else:
            sys.modules[reporter] = before
    return openvino


def _no_bf16(why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"bf16 was asked for but {why}",
        fix="use the fp32 or the int8 encoder here",
        field="precision",
        value="bf16",
    )
