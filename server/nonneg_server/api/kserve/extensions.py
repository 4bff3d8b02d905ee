"""A model's configuration and statistics, as Triton's extensions of the protocol tell them."""

from __future__ import annotations

import time

from nonneg_server.api.kserve.schemas import KServeConfig, KServeDuration, KServeModel, KServeStatistics, KServeTensor
from nonneg_server.api.kserve.schemas import KServeConfigTensor as ConfigTensor
from nonneg_server.engine.engine import InferenceEngine

EXTENSIONS = ["binary_tensor_data", "model_repository", "model_configuration", "statistics"]
_TYPES = {"BYTES": "TYPE_STRING", "UINT8": "TYPE_UINT8", "FP32": "TYPE_FP32", "INT32": "TYPE_INT32"}


def config_of(model: KServeModel, threads: int, images: int) -> KServeConfig:
    """Return the model's tensors with their batch dimension, as in its metadata: `max_batch_size` is therefore 0."""
    return {
        "name": model["name"],
        "platform": model["platform"],
        "backend": "onnxruntime",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 0,
        "input": [_configured(tensor) for tensor in model["inputs"]],
        "output": [_configured(tensor) for tensor in model["outputs"]],
        "instance_group": [{"name": model["name"], "kind": "KIND_AUTO", "count": threads}],
        "parameters": {"max_images": {"string_value": str(images)}},
    }


def _configured(tensor: KServeTensor) -> ConfigTensor:
    return {"name": tensor["name"], "data_type": _TYPES[tensor["datatype"]], "dims": tensor["shape"]}


def statistics_of(engine: InferenceEngine) -> KServeStatistics:
    """Return what the model did since it was loaded: every image counts as one inference."""
    stats, manifest = engine.stats.flush(), engine.bundle.manifest
    images, failed = stats.images, sum(stats.errors.values())
    queue, decode, run = stats.queue.sum, stats.decode.sum, stats.run.sum
    last = time.time() - (time.monotonic() - engine.used)  # seconds since the epoch
    return {
        "name": manifest.name,
        "version": manifest.version,
        "last_inference": round(last * 1e3) if images else 0,
        "inference_count": images,
        "execution_count": sum(stats.batches.counts) or images,
        "inference_stats": {
            "success": _duration(images, queue + decode + run),
            "fail": _duration(failed, 0.0),
            "queue": _duration(images, queue),
            "compute_input": _duration(images, decode),
            "compute_infer": _duration(images, run),
            "compute_output": _duration(images, 0.0),
        },
        "batch_stats": [],
    }


def _duration(count: int, seconds: float) -> KServeDuration:
    return {"count": count, "ns": round(seconds * 1e9)}
