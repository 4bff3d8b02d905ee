"""An example of every answer, for people to read; a test holds each against its model."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nonneg_server.api.native import schemas as wire
from nonneg_server.documentation import foreign

FINGERPRINT = "9e3ce24a107dceea4a819aea528c5018"
_HEAD = {"model": "nonneg-lite0", "fingerprint": FINGERPRINT}
_VECTOR = {"index": 0, "indices": [0, 3, 7], "values": [0.816, 0.408, 0.41], "nnz": 3, "zero": False}
_ERROR = {
    "type": "image_unreadable",
    "message": "a JPEG of 14513 bytes that breaks off or is damaged",
    "field": "images[1]",
    "value": None,
    "limit": None,
    "fix": "send the whole file; re-save it if other programs cannot open it either",
}
_VIEW = {"size": 224, "fit": "cover", "crop": 0.875, "interpolation": "bicubic", "background": [255, 255, 255]}
_MODEL = {"name": "nonneg-lite0", "version": "1", "fingerprint": FINGERPRINT, "dimensions": 1280, "precision": "fp16"}
_LENGTH = {
    "dimensions": 512,
    "top_k": None,
    "p_at_1": 0.91,
    "p_at_10": 0.86,
    "map_at_k": 0.8,
    "knn": 0.92,
    "zero_share": 0.0,
    "mean_nnz": 118.2,
    "bytes": 472.8,
}
_CARD = {"id": "nonneg-lite0", "object": "model", "created": 1763424000, "owned_by": "nonneg"}

EXAMPLES: dict[type[BaseModel], Any] = {
    wire.EmbedAnswer: {
        **_HEAD,
        "dimensions": 8,
        "top_k": 3,
        "normalized": True,
        "encoding": "float",
        "data": [_VECTOR, {"index": 1, "error": _ERROR}],
    },
    wire.ExplainAnswer: {
        **_HEAD,
        "dimensions": 1280,
        "cosine": 0.83,
        "shared": 212,
        "nnz": [301, 288],
        "contributions": [
            {
                "dimension": 17,
                "name": "tabby cats",
                "details": "/models/nonneg-lite0/dimensions/17",
                "examples": ["/models/nonneg-lite0/dimensions/17/examples/0"],
                "values": [0.42, 0.38],
                "contribution": 0.16,
                "share": 0.193,
            }
        ],
        "rest": 0.67,
    },
    wire.ModelList: {"models": [{**_MODEL, "description": "The model that comes with nonneg.", "view": _VIEW}]},
    wire.ModelDetails: {**_MODEL, "lengths": [_LENGTH]},
    wire.DimensionDetails: {
        **_HEAD,
        "dimension": 17,
        "name": "tabby cats",
        "original": 903,
        "expected_activation": 0.021,
        "frequency": 0.31,
        "variance": 0.0012,
        "calibration_images": 5000,
        "examples": [{"image": "/models/nonneg-lite0/dimensions/17/examples/0", "activation": 0.42, "label": "tabby"}],
    },
    wire.Health: {"status": "alive"},
    foreign.OpenAIEmbeddings: {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.816, 0, 0, 0.408, 0, 0, 0, 0.41]}],
        "model": "nonneg-lite0",
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    },
    foreign.OpenAIModels: {"object": "list", "data": [_CARD]},
    foreign.OpenAIModel: _CARD,
    foreign.CohereAnswer: {
        "id": "5f0c…",
        "response_type": "embeddings_by_type",
        "embeddings": {"float": [[0.816, 0, 0, 0.408, 0, 0, 0, 0.41]], "ubinary": [[145]]},
        "texts": [],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"images": 1}},
    },
    foreign.KServeServer: {"name": "nonneg", "version": "0.1.0", "extensions": ["binary_tensor_data"]},
    foreign.KServeLive: {"live": True},
    foreign.KServeReady: {"ready": True},
    foreign.KServeModelReady: {"name": "nonneg-lite0", "ready": True},
    foreign.KServeModel: {
        "name": "nonneg-lite0",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [-1, 1280]}],
    },
    foreign.KServeAnswer: {
        "model_name": "nonneg-lite0",
        "model_version": "1",
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [1, 3], "data": [0.816, 0, 0.578]}],
        "parameters": {"fingerprint": FINGERPRINT},
    },
    foreign.KServeIndex: [{"name": "nonneg-lite0", "version": "1", "state": "READY", "reason": ""}],
    foreign.KServeDone: {},
    foreign.TeiInfo: {
        "model_id": "nonneg-lite0",
        "model_sha": FINGERPRINT,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "model"}},
        "served_model_name": "nonneg-lite0",
        "embedding_size": 1280,
        "max_client_batch_size": 256,
        "max_concurrent_requests": 512,
        "tokenization_workers": 2,
        "payload_limit": 67108864,
        "version": "0.1.0",
    },
}
