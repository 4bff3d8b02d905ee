"""A request for every route: the paths that are asked for, and a body, or several, for each that takes one.

`m` stands for a served model, `spare` for another that may be unloaded, `drop-0` for a photo that was uploaded.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any, NamedTuple

GETS = (
    "/", "/models", "/models/m", "/models/m/dimensions", "/models/m/dimensions/3", "/models/m/dimensions/3/examples/0",
    "/livez", "/readyz", "/metrics", "/openapi.json", "/docs", "/v1/models", "/v1/models/m", "/v2", "/v2/health/live",
    "/v2/health/ready", "/v2/models/stats", "/v2/models/m", "/v2/models/m/versions/1", "/v2/models/m/config",
    "/v2/models/m/versions/1/config", "/v2/models/m/stats", "/v2/models/m/versions/1/stats", "/v2/models/m/ready",
    "/v2/models/m/versions/1/ready", "/info", "/health", "/studio", "/studio/photos", "/studio/photos/drop-0",
    "/studio/photos/drop-0/thumbnail", "/studio/photos/drop-0/image", "/studio/photos/drop-0/where?dimension=3",
    "/studio/search?expression=dim:3", "/studio/search?expression=drop-0", "/studio/pair?a=drop-0&b=drop-0",
    "/studio/photos/drop-0/whole", "/studio/atlas", "/studio/library", "/studio/completions?text=a",
    "/studio/dimensions/3", "/studio/groups", "/studio/groups/progress", "/studio/page/app.js",
)  # fmt: skip
STUDIO = ("X-Nonneg-Studio: 1",)
JSON, FORM, NPY = "application/json", "multipart/form-data; boundary=b", "application/x-npy"


class Post(NamedTuple):
    """A body for a route, and the headers that go with it."""

    path: str
    mime: str
    body: bytes
    headers: tuple[str, ...] = ()
    method: str = "POST"


def posts(image: bytes) -> list[Post]:
    """A request with this image for each route that takes one, and those that take something else."""
    return [*_of_images(image), *_of_dialects(image), *_of_vectors(), *_of_models(), *_of_studio()]


def _json(path: str, given: Any) -> Post:
    return Post(path, JSON, json.dumps(given).encode())


def _of_images(image: bytes) -> list[Post]:
    text = base64.b64encode(image).decode()
    part = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n' + image + b"\r\n"
    return [
        Post("/embed", "image/*", image),
        Post("/embed", FORM, part + b'--b\r\nContent-Disposition: form-data; name="dimensions"\r\n\r\n8\r\n--b--\r\n'),
        Post("/explain", FORM, part * 2 + b"--b--\r\n"),
        _json("/embed", {"images": [text, text], "dimensions": 64}),
        _json("/embed", {"texts": ["a dog"], "truncate": True}),
        _json("/explain", {"images": [text, text], "limit": 3}),
        _json("/explain", {"images": [text, {"image": text}], "where": True, "model": "spare"}),
        _json("/query", {"expression": 'a.png + 2*dim:3 - "dog" !dim:5', "images": {"a.png": text}, "dimensions": 8}),
        _json("/query", {"expression": "dim:3 - dim:5", "limit": 3}),
        _json("/search", {"query": "drop.png", "images": {"drop.png": text}, "k": 3}),
        Post("/studio/uploads", "image/*", image, STUDIO),
    ]


def _of_studio() -> list[Post]:
    puts = {
        "marks": {"photos": ["drop-0"], "name": "red"},
        "names": {"dimension": 3, "name": "red things"},
        "searches": {"name": "reds", "address": "#/?q=red"},
    }
    export = json.dumps({"photos": ["drop-0"], "form": "csv"}).encode()
    return [
        Post("/studio/export", JSON, export, STUDIO),
        *(Post(f"/studio/{name}", JSON, json.dumps(body).encode(), STUDIO, "PUT") for name, body in puts.items()),
    ]


def _of_dialects(image: bytes) -> list[Post]:
    text = base64.b64encode(image).decode()
    uri = f"data:image/png;base64,{text}"
    part = {"type": "image_url", "image_url": {"url": uri}}
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [text]}
    pixels = {"name": "pixels", "shape": [1, 1, 2, 3], "datatype": "UINT8", "data": [[[[1, 2, 3], [4, 5, 6]]]]}
    return [
        _json("/v1/embeddings", {"model": "m", "input": [text]}),
        _json("/v1/embeddings", {"model": "m", "messages": [{"role": "user", "content": [part]}]}),
        _json("/v1/embeddings", {"model": "m", "input": [{"content": [part]}], "encoding_format": "base64"}),
        _json("/v2/embed", {"model": "m", "images": [text], "embedding_types": ["float", "int8"]}),
        _json("/v2/embed", {"model": "m", "inputs": [{"content": [{"type": "image_url", "url": uri}]}]}),
        _json("/embed", {"inputs": [text, uri], "dimensions": 8}),
        _json("/embed_sparse", {"inputs": uri, "normalize": False}),
        _json("/", {"inputs": uri}),
        _json("/v2/models/m/infer", {"inputs": [tensor]}),
        _json("/v2/models/m/infer", {"inputs": [pixels], "parameters": {"top_k": 3}}),
        _json("/v2/models/m/versions/1/infer", {"inputs": [tensor], "outputs": [{"name": "embedding"}]}),
        _in_binary(image),
    ]


def _in_binary(image: bytes) -> Post:
    tail = struct.pack("<I", len(image)) + image
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(tail)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    length = f"Inference-Header-Content-Length: {len(head)}"
    return Post("/v2/models/m/infer", "application/octet-stream", head + tail, (length,))


def _of_vectors() -> list[Post]:
    return [
        _json("/shorten", {"vectors": [{"indices": [1, 3], "values": [0.5, 0.2]}], "dimensions": 2}),
        _json("/shorten", {"vectors": [[0.1, 0.2, 0], [0, 0, 0]], "dimensions": [2, 3], "width": 3}),
        *(Post("/shorten", NPY, _npy(shape)) for shape in ("(1, 4)", "()", "(4,)", "(0, 4)", "(1, 2, 2)")),
    ]


def _npy(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0v\0" + header + struct.pack("<4f", 0.5, 0, 0.25, 0)


def _of_models() -> list[Post]:
    return [
        _json("/v2/repository/index", {"ready": True}),
        _json("/v2/repository/models/spare/load", {}),
        _json("/v2/repository/models/spare/unload", {}),
    ]
