"""KServe's requests and answers, with the configuration and statistics of Triton's extensions."""

import time
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field

from nonneg_server.api.route import PIXEL, Schema, Shape
from nonneg_server.engine.inference_engine import InferenceEngine


class Tensor(BaseModel):
    """One input tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=8)]
    datatype: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: Any = None


class Output(BaseModel):
    """One requested output."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class InferRequest(BaseModel):
    """The JSON of POST /v2/models/{model}/infer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    inputs: Annotated[list[Tensor], Field(min_length=1, max_length=1)]
    outputs: Annotated[list[Output], Field(max_length=8)] | None = None


class KServeFailure(Shape):
    """KServe's error body."""

    error: str


class KServeServer(Shape):
    name: str
    version: str
    extensions: list[str]


class KServeLive(Shape):
    live: bool


class KServeReady(Shape):
    ready: bool


class KServeModelReady(Shape):
    name: str
    ready: bool


class KServeTensor(Shape):
    name: str
    datatype: str
    shape: list[int]


class KServeModel(Shape):
    name: str
    versions: list[str]
    platform: str
    inputs: list[KServeTensor]
    outputs: list[KServeTensor]


class KServeOutput(Shape):
    name: str
    datatype: str
    shape: list[int]
    data: NotRequired[list[float | str]]
    parameters: NotRequired[dict[str, Any]]


class KServeAnswer(Shape):
    model_name: str
    model_version: str
    id: NotRequired[str]
    outputs: list[KServeOutput]
    parameters: dict[str, Any]


class KServeIndexRow(Shape):
    name: str
    version: str
    state: Literal["READY", "UNAVAILABLE"]
    reason: str


class KServeDone(Shape):
    """Nothing more to say."""


class KServeConfigTensor(Shape):
    name: str
    data_type: str
    dims: list[int]


class KServeConfig(Shape):
    """A model's configuration, in the words of Triton's ModelConfig."""

    name: str
    platform: str
    backend: str
    version_policy: dict[str, Any]
    max_batch_size: Annotated[int, Field(description="0: the tensors' shapes have their batch dimension.")]
    input: list[KServeConfigTensor]
    output: list[KServeConfigTensor]
    instance_group: list[dict[str, Any]]
    parameters: Annotated[dict[str, Any], Field(description="max_images: how many images a request may have.")]


class KServeDuration(Shape):
    count: int
    ns: int


class KServeStatistics(Shape):
    name: str
    version: str
    last_inference: Annotated[int, Field(description="Milliseconds since the epoch; 0 before the first.")]
    inference_count: Annotated[int, Field(description="Images, without those that a cache knew.")]
    execution_count: int
    inference_stats: Annotated[
        dict[str, KServeDuration], Field(description="compute_input is decoding; fail counts images and has no time.")
    ]
    batch_stats: list[Any]


class KServeAllStatistics(Shape):
    """What models did since they were loaded."""

    model_stats: list[KServeStatistics]


_TENSOR = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [PIXEL]}
ASKED: Schema = {"inputs": [_TENSOR], "parameters": {"dimensions": 8}}
MODEL_READY: KServeModelReady = {"name": "photo", "ready": True}
INDEX: list[KServeIndexRow] = [{"name": "photo", "version": "1", "state": "READY", "reason": ""}]


# A model's configuration and statistics, as Triton's extensions of the protocol tell them.

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


def _configured(tensor: KServeTensor) -> KServeConfigTensor:
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
