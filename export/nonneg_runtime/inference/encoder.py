"""An encoder in this process: opened on a provider, and a bundle's with its preprocessing on threads."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, NonnegError
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import CPU, OPENVINO, PROVIDERS, Runner
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
