"""An encoder in ONNX Runtime: the one place that opens its sessions."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import onnxruntime as ort
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import BundleInvalid
from nonneg_core.files.user_cache import cache_folder
from nonneg_runtime.bundle.bundle_folder import ENCODER, record_of, storing
from nonneg_runtime.inference.runner import CPU, INPUT, OUTPUT, check_provider, provider_refused
from nonneg_runtime.inference.runner import nodes_by_provider as taken

BESIDE = "session.optimized_model_external_initializers_file_name"
BESIDE_FROM = "session.optimized_model_external_initializers_min_size_in_bytes"
RECORD = "session.record_ep_graph_assignment_info"  # which provider took which node; older runtimes do not know it


class Session:
    """An encoder in ONNX Runtime."""

    def __init__(
        self,
        model: Path | bytes,
        *,
        threads: int = 1,
        providers: tuple[str, ...] = (CPU,),
        takes: str = INPUT,
        output: str = OUTPUT,
        written_to: Path | None = None,
        optimised: bool = False,
    ) -> None:
        """Open a file, or an ONNX model in memory.

        written_to: where to put the optimised graph, its weights beside it. optimised: the file is such a graph.
        """
        self._takes, self._output = takes, output
        provider = providers[0]
        if provider != CPU:
            load_cuda_libraries()
        if provider not in ort.get_available_providers():
            raise provider_refused(provider, f"this ONNX Runtime has only {', '.join(ort.get_available_providers())}")
        options = _options(threads, written_to, optimised=optimised)
        settings: Mapping[str, Mapping[str, str]] = {}
        if provider != CPU:
            options.add_session_config_entry(RECORD, "1")
            settings = provider_options(Path(_name(model)), providers)
        self._session = _opened(model, options, {name: dict(settings.get(name, {})) for name in providers})
        self.providers: tuple[str, ...] = tuple(self._session.get_providers())
        if self.providers[0] != provider:
            raise provider_refused(provider, f"ONNX Runtime runs {self.providers[0]}")
        if provider != CPU:
            check_provider(provider, taken(self._session))

    @property
    def side(self) -> int | None:
        """Height and width of the pixels it takes, if it takes uint8 squares of a fixed side."""
        taken = next((node for node in self._session.get_inputs() if node.name == INPUT), None)
        if taken is None or taken.type != "tensor(uint8)" or len(taken.shape) != 4:
            return None
        _, height, width, channels = taken.shape
        return height if isinstance(height, int) and height == width and channels == 3 else None

    def run(self, batch: NDArray[Any]) -> Floats:
        """Return the raw embeddings of a batch, uint8 (batch, size, size, 3) or tokens: float32 (batch, D)."""
        result: Floats = self._session.run([self._output], {self._takes: batch})[0]
        return result


def _options(threads: int, written_to: Path | None, *, optimised: bool) -> Any:
    """Return how a session computes, and where it writes the optimised graph."""
    options, level = ort.SessionOptions(), ort.GraphOptimizationLevel
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = level.ORT_DISABLE_ALL if optimised else level.ORT_ENABLE_ALL
    if written_to is not None:
        options.optimized_model_filepath = str(written_to)
        options.add_session_config_entry(BESIDE, "weights")
        options.add_session_config_entry(BESIDE_FROM, "1024")
    # Spinning workers halve the throughput of every session as soon as anything else runs on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def _opened(model: Path | bytes, options: Any, providers: Mapping[str, Mapping[str, str]]) -> Any:
    """Return an InferenceSession with these providers and their settings; a typed error where it cannot be opened."""
    try:
        return ort.InferenceSession(
            str(model) if isinstance(model, Path) else model,
            options,
            providers=list(providers.items()),
            enable_fallback=0,  # it would go on with another provider, now or at any later run
        )
    except Exception as error:  # onnxruntime raises its own classes, none of them public
        if (first := next(iter(providers))) != CPU:
            raise provider_refused(first, f"ONNX Runtime cannot open {_name(model)} with it ({error})") from error
        raise BundleInvalid(f"ONNX Runtime refuses {_name(model)} ({error})", fix="export the bundle again") from error


def _name(model: Path | bytes) -> str:
    return str(model) if isinstance(model, Path) else "the model"


# What NVIDIA's providers are told before a session is opened: no TF32, kernels chosen fast, engines that are kept.

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
TF32 = "NVIDIA_TF32_OVERRIDE"  # TensorRT's provider has no option for it


def load_cuda_libraries() -> None:
    """Load CUDA's libraries where pip has installed them: ONNX Runtime finds only the system's by itself."""
    os.environ.setdefault(TF32, "0")  # read when they are loaded
    if hasattr(ort, "preload_dlls"):
        with redirect_stdout(sys.stderr):  # it prints what it does not find
            ort.preload_dlls()


def provider_options(path: Path, providers: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return each provider's options, for this encoder."""
    cuda = {
        "cudnn_conv_algo_search": "HEURISTIC",  # to try every algorithm takes seconds for each batch size
        "arena_extend_strategy": "kSameAsRequested",  # the largest batch comes first: nothing has to grow later
        "use_tf32": "0",  # fp32 is to mean fp32: the fingerprint says so
    }
    return {CUDA: cuda, TENSORRT: kept_engines(path) if TENSORRT in providers else {}}


def kept_engines(path: Path) -> dict[str, str]:
    """Return options that keep TensorRT's engine, which takes minutes to build; none where nothing can be written.

    A folder for every encoder. TensorRT's provider names engines by the graph and not by the weights, and would take
    the engine of another model of the same architecture for this one's.
    """
    folder = cache_folder("tensorrt") / record_of(path).sha256[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}
    if not os.access(folder, os.W_OK):
        return {}
    return {
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": "True",
        "trt_timing_cache_path": str(folder),
    }


# Sessions over one copy of an encoder's weights: what ONNX Runtime has optimised is written down, and they map it.
#
# Each session of its own has a copy, in the layout that its kernels want. As the optimised graph with its weights
# beside it, the encoder opens in milliseconds, without a copy, and answers the same in every bit. It is made for this
# processor: so it is not kept, and its name is gone as soon as it is mapped.


def sessions_sharing_weights(path: Path, threads: Sequence[int]) -> list[Session]:
    """Return a session on so many cores each; StorageFailed where a temporary file does not fit."""
    with storing(path), tempfile.TemporaryDirectory(prefix="nonneg-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / ENCODER
        Session(path, written_to=place)
        return [Session(place, threads=count, optimised=True) for count in threads]
