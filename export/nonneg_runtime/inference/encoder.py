"""An encoder in this process: opened on a provider, and a bundle's with its preprocessing on threads."""

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.errors import BundleInvalid, ConfigInvalid, MissingExtra, NonnegError
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.view import Pixels
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.terminal.installing import extra_hint
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import CPU, OPENVINO, OUTPUT, PROVIDERS, Runner, provider_refused
from nonneg_runtime.seeing.preprocess import Decoding, Inspect, PhotoInput, Preprocessor


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


# A bundle in this process: images in, raw vectors out, on threads that share one session.


class BundleEncoder:
    """Encodes images with one bundle: each is one job (decode, view, run) that one thread does from end to end."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        decode: Decoding = "fast",
        providers: tuple[str, ...] | None = None,
    ) -> None:
        self.bundle = bundle
        self.threads = threads or available_cores()
        self._preprocessor = Preprocessor(bundle.manifest.view, max_pixels=MAX_PIXELS, decode=decode)
        precision = bundle.manifest.precision
        self._session = open_session(bundle.encoder, callers=self.threads, providers=providers, precision=precision)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")

    def submit(self, image: PhotoInput, inspect: Inspect | None = None) -> Future[Floats]:
        """Begin to encode a file's bytes or a PIL image; the future holds the raw vector (D,) or one of our errors.

        inspect: called with the decoded image, before it is shrunk to what the encoder sees.
        """
        return self._pool.submit(self._encode, image, inspect)

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self._pool.shutdown(cancel_futures=True)

    def _encode(self, image: PhotoInput, inspect: Inspect | None) -> Floats:
        pixels = self._preprocessor.pixels(image, inspect=inspect)
        try:
            vector: Floats = self._session.run(pixels[None])[0]
        except Exception as error:  # the runtimes raise classes of their own, none of them public
            raise NonnegError(
                f"the encoder failed on an image ({type(error).__name__})", fix="run `nonneg doctor`"
            ) from error
        return vector


# An encoder in OpenVINO's own runtime: float32, int8, or bfloat16 where the processor has it.
#
# Left to itself OpenVINO takes as many threads as the host has cores, and bfloat16 wherever it is fast. Here it takes
# the threads it is given and the precision that the bundle states, and says so when it cannot.

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
