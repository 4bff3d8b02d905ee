"""What NVIDIA's providers are told before a session is opened: no TF32, kernels chosen fast, engines that are kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import onnxruntime as ort

from nonneg_core.cache_folder import cache_folder
from nonneg_runtime.bundle import record_of

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
TF32 = "NVIDIA_TF32_OVERRIDE"  # TensorRT's provider has no option for it


def load_libraries() -> None:
    """Load CUDA's libraries where pip has installed them: ONNX Runtime finds only the system's by itself."""
    os.environ.setdefault(TF32, "0")  # read when they are loaded
    if hasattr(ort, "preload_dlls"):
        with redirect_stdout(sys.stderr):  # it prints what it does not find
            ort.preload_dlls()


def options(path: Path, providers: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return each provider's options, for this encoder."""
    cuda = {
        "cudnn_conv_algo_search": "HEURISTIC",  # to try every algorithm takes seconds for each batch size
        "arena_extend_strategy": "kSameAsRequested",  # the largest batch comes first: nothing has to grow later
        "use_tf32": "0",  # fp32 is to mean fp32: the fingerprint says so
    }
    return {CUDA: cuda, TENSORRT: kept_engines(path) if TENSORRT in providers else {}}


def kept_engines(path: Path) -> dict[str, str]:
    """Return options that keep TensorRT's engine, which takes minutes to build; none where nothing can be written.

    A folder for every encoder: TensorRT's provider names engines by the graph and not by the weights, and would take
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
