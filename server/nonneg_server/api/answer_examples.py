"""An example of each of the native API's answers, as the OpenAPI document shows it."""

from typing import Any

from nonneg_server.api.native_answers import Health
from nonneg_server.api.route import FINGERPRINT

_HEAD = {"model": "photo", "fingerprint": FINGERPRINT}
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
_MODEL = {"name": "photo", "version": "1", "fingerprint": FINGERPRINT, "dimensions": 1280, "precision": "fp16"}
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
_NAME = {
    "name": "tabby",
    "common": "cat",
    "evidence": {
        "source": "direction",
        "says": "10 of its 10 strongest photos show it, 20 in all",
        "precision": 1.0,
        "photos": 20,
        "rank": 1,
    },
}
EMBEDDED: Any = {
    **_HEAD,
    "dimensions": 8,
    "top_k": 3,
    "normalized": True,
    "encoding": "float",
    "data": [_VECTOR, {"index": 1, "error": _ERROR}],
}
EXPLAINED: Any = {
    **_HEAD,
    "dimensions": 1280,
    "cosine": 0.83,
    "shared": 212,
    "nnz": [301, 288],
    "contributions": [
        {
            "dimension": 17,
            **_NAME,
            "details": "/models/photo/dimensions/17",
            "examples": ["/models/photo/dimensions/17/examples/0"],
            "values": [0.42, 0.38],
            "contribution": 0.16,
            "share": 0.193,
        }
    ],
    "rest": 0.67,
}
QUERIED: Any = {
    **_HEAD,
    "dimensions": 8,
    "expression": "a.png + dim:3 !dim:5",
    "parts": [{"indices": [0, 3, 7], "values": [0.3, 0.91, 0.28], "nnz": 3}],
    "chance": 0.21,
    "without": [{"dimension": 5, "name": "snow"}],
    "unlike": [{"indices": [2, 6], "values": [0.8, 0.6], "nnz": 2, "line": 0.31}],
}
MODELS: Any = {"models": [{**_MODEL, "description": "The model that comes with nonneg.", "view": _VIEW}]}
_DRIFT = "snow: 3.1x as often as on the calibration photos, in 12.4% of the photos instead of 4.0% "
MODEL: Any = {**_MODEL, "lengths": [_LENGTH], "drift": [_DRIFT + "(1200 images since 2026-03-02 08:00 UTC)"]}
DIMENSION: Any = {
    **_HEAD,
    "dimension": 17,
    **_NAME,
    "unnamed": None,
    "original": 903,
    "expected_activation": 0.021,
    "frequency": 0.31,
    "variance": 0.0012,
    "calibration_images": 5000,
    "examples": [{"image": "/models/photo/dimensions/17/examples/0", "activation": 0.42, "label": "tabby"}],
}
DIMENSIONS: Any = {
    **_HEAD,
    "named": 836,
    "unnamed": None,
    "total": 1,
    "offset": 0,
    "dimensions": [
        {
            "dimension": 17,
            **_NAME,
            "frequency": 0.31,
            "expected_activation": 0.021,
            "details": "/models/photo/dimensions/17",
        }
    ],
}
ALIVE: Health = {"status": "alive"}
