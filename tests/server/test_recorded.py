"""What users see, as it was recorded: the OpenAPI document, and an answer or more of every dialect.

`NONNEG_RECORD=1 pytest tests/server/test_recorded.py` records again; what then differs in git is what users notice.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import ormsgpack
import pytest
from PIL import Image

from nonneg_core.version import __version__
from nonneg_runtime.bundle.bundle_folder import Bundle

RECORDED = Path(__file__).with_name("recorded")
RECORD = bool(os.environ.get("NONNEG_RECORD"))
VARYING = {
    "content-length",
    "x-request-id",
    "x-total-time",
    "x-queue-time",
    "x-decode-time",
    "x-inference-time",
    "x-fingerprint",
}
Case = dict[str, Any]


def picture(seed: int) -> bytes:
    """A smooth picture as a PNG, which decodes to the same pixels everywhere."""
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((16, 16), Image.Resampling.NEAREST).save(buffer, "PNG")
    return buffer.getvalue()


A, B = picture(1), picture(2)
TEXT_A, TEXT_B = (base64.b64encode(data).decode() for data in (A, B))
URI = f"data:image/png;base64,{TEXT_A}"
PNG = {"content-type": "image/png"}
TENSOR = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [TEXT_A]}

CASES: dict[str, Case] = {
    "embed": {"path": "/embed", "content": A, "headers": PNG},
    "embed_without_type": {"path": "/embed", "content": A},
    "embed_shortened": {"path": "/embed?dimensions=8&top_k=3&format=both", "content": A, "headers": PNG},
    "embed_form": {"path": "/embed", "files": [("images", A), ("images", b"no image"), ("images", B)]},
    "embed_json": {"path": "/embed", "json": {"images": [TEXT_A, URI], "dimensions": [16, 8], "encoding": "base64"}},
    "embed_dense": {"path": "/embed?format=dense&normalize=false", "content": A, "headers": PNG},
    "embed_int8": {"path": "/embed?encoding=int8", "content": A, "headers": {"accept": "application/msgpack"}},
    "embed_npy": {"path": "/embed?dimensions=4", "content": A, "headers": {"accept": "application/x-npy"}},
    "embed_fails": {"path": "/embed", "json": {"images": [TEXT_A, "AAAA"], "errors": "fail"}},
    "embed_no_image": {"path": "/embed", "content": b"text", "headers": {"content-type": "text/plain"}},
    "embed_unreadable": {"path": "/embed", "content": A[:60], "headers": PNG},
    "embed_too_long": {"path": "/embed?dimensions=900", "content": A, "headers": PNG},
    "embed_misspelt": {"path": "/embed?dimension=9", "content": A, "headers": PNG},
    "embed_not_acceptable": {"path": "/embed", "content": A, "headers": {"accept": "image/png"}},
    "embed_link": {"path": "/embed", "json": {"images": ["https://example.org/a.png"]}},
    "embed_packed": {"path": "/embed", "content": A, "headers": {"content-encoding": "gzip"}},
    "embed_late": {"path": "/embed", "content": A, "headers": {"x-request-timeout": "1e-9"}},
    "embed_get": {"path": "/embed", "method": "GET"},
    "embed_options": {"path": "/embed", "method": "OPTIONS"},
    "explain": {"path": "/explain?limit=2", "files": [("images", A), ("images", B)]},
    "shorten": {"path": "/shorten", "json": {"vectors": [[3.0, 0.0, 4.0], [0.0, 1.0, 2.0]], "dimensions": 2}},
    "shorten_fails": {"path": "/shorten", "json": {"vectors": [[-1.0]]}},
    "models": {"path": "/models", "method": "GET"},
    "model": {"path": "/models/tiny", "method": "GET"},
    "model_unknown": {"path": "/models/other", "method": "GET"},
    "dimensions": {"path": "/models/tiny/dimensions?named=true&sort=evidence&limit=2", "method": "GET"},
    "dimensions_misspelt": {"path": "/models/tiny/dimensions?sort=size", "method": "GET"},
    "dimension": {"path": "/models/tiny/dimensions/0", "method": "GET"},
    "livez": {"path": "/livez", "method": "GET"},
    "readyz": {"path": "/readyz", "method": "GET"},
    "readyz_head": {"path": "/readyz", "method": "HEAD"},
    "not_found": {"path": "/embedd", "content": A},
    "openai": {"path": "/v1/embeddings", "json": {"model": "tiny", "input": [URI], "dimensions": 8}},
    "openai_base64": {
        "path": "/v1/embeddings",
        "json": {"model": "tiny", "input": URI, "encoding_format": "base64", "dimensions": 4},
    },
    "openai_items": {"path": "/v1/embeddings", "json": {"model": "tiny", "input": [URI, "?"], "errors": "item"}},
    "openai_unknown_model": {"path": "/v1/embeddings", "json": {"model": "other", "input": URI}},
    "openai_models": {"path": "/v1/models", "method": "GET"},
    "openai_not_found": {"path": "/v1/nothing", "method": "GET"},
    "cohere": {
        "path": "/v2/embed",
        "json": {"model": "tiny", "images": [URI], "embedding_types": ["float", "int8"], "output_dimension": 8},
    },
    "cohere_texts": {"path": "/v2/embed", "json": {"model": "tiny", "texts": ["a"]}},
    "kserve": {
        "path": "/v2/models/tiny/infer",
        "json": {"id": "1", "inputs": [TENSOR], "parameters": {"dimensions": 8}},
    },
    "kserve_version": {"path": "/v2/models/tiny/versions/1/infer", "json": {"inputs": [TENSOR]}},
    "kserve_fails": {"path": "/v2/models/tiny/infer", "json": {"inputs": []}},
    "kserve_unknown_model": {"path": "/v2/models/other/infer", "json": {"inputs": [TENSOR]}},
    "kserve_server": {"path": "/v2", "method": "GET"},
    "kserve_model": {"path": "/v2/models/tiny", "method": "GET"},
    "kserve_config": {"path": "/v2/models/tiny/config", "method": "GET"},
    "kserve_ready": {"path": "/v2/models/tiny/ready", "method": "GET"},
    "kserve_live": {"path": "/v2/health/live", "method": "GET"},
    "kserve_index": {"path": "/v2/repository/index", "json": {}},
    "tei": {"path": "/embed", "json": {"inputs": [URI, TEXT_B], "dimensions": 8, "truncate": True}},
    "tei_sparse": {"path": "/embed_sparse", "json": {"inputs": URI, "top_k": 3}},
    "tei_fails": {"path": "/embed", "json": {"inputs": [URI, "a text"]}},
    "tei_health": {"path": "/health", "method": "GET"},
    "root": {"path": "/", "method": "GET"},
    "tei_info": {"path": "/info", "method": "GET"},
}


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_as_it_was_recorded(served: str, bundle: Bundle, name: str) -> None:
    given = {"method": "POST", **CASES[name]}
    path = given.pop("path")
    answer = httpx.request(url=served + path, **given)
    found = {
        "status": answer.status_code,
        "headers": [[key, "*" if key in VARYING else value] for key, value in answer.headers.multi_items()],
        "body": said(answer, bundle),
    }
    compare(RECORDED / "answers" / f"{name}.json", found)


def test_the_openapi_document_is_as_it_was_recorded(served: str) -> None:
    pytest.importorskip("pydantic", minversion="2.11")  # before, it put the keys of a schema into another order
    document = httpx.get(f"{served}/openapi.json").json()
    document["info"]["version"] = "*"
    compare(RECORDED / "openapi.json", document)


def test_the_metrics_are_those_that_were_recorded(served: str) -> None:
    httpx.post(f"{served}/embed", content=A)
    text = httpx.get(f"{served}/metrics").text
    compare(RECORDED / "metrics.json", sorted(set(re.findall(r"^# TYPE (nonneg_\S+ \w+)$", text, re.MULTILINE))))


def said(answer: httpx.Response, bundle: Bundle) -> Any:
    """The body as JSON can hold it, without what differs from run to run."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/json"):
        body = json.loads(answer.content) if answer.content else None
    elif kind == "application/msgpack":
        body = ormsgpack.unpackb(answer.content)
    elif kind == "application/x-npy":
        body = np.load(io.BytesIO(answer.content)).tolist()
    else:
        body = answer.content
    return scrubbed(body, bundle.manifest.fingerprint, answer.headers["x-request-id"])


def scrubbed(value: Any, fingerprint: str, request_id: str) -> Any:
    if isinstance(value, dict):
        return {
            name: "*"
            if name in ("created", "sha256", "bytes", "drift")  # drift: of what the other tests sent
            else scrubbed(numbers(name, inner), fingerprint, request_id)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [scrubbed(inner, fingerprint, request_id) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    pinned = {f"tiny@{fingerprint[:8]}": "tiny@<fingerprint>"}
    return {**pinned, fingerprint: "<fingerprint>", request_id: "<request id>", __version__: "<version>"}.get(
        value, value
    )


def numbers(name: str, value: Any) -> Any:
    """What stands for numbers in base64, as these numbers: their last bits differ from one processor to the next."""
    if name in ("values", "embedding") and isinstance(value, str) and value:
        return np.frombuffer(base64.b64decode(value), "<f4").tolist()
    return value


def compare(file: Path, found: Any) -> None:
    if RECORD:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    alike(found, json.loads(file.read_text()), file.stem)


def alike(found: Any, recorded: Any, where: str) -> None:
    """Equal in everything, keys' order included; floating-point numbers nearly."""
    if isinstance(recorded, float) and isinstance(found, float):
        assert found == pytest.approx(recorded, abs=1e-4, rel=1e-4), where
    elif isinstance(recorded, dict) and isinstance(found, dict):
        assert list(found) == list(recorded), where
        for name in recorded:
            alike(found[name], recorded[name], f"{where}.{name}")
    elif isinstance(recorded, list) and isinstance(found, list):
        assert len(found) == len(recorded), where
        for i, (a, b) in enumerate(zip(found, recorded, strict=True)):
            alike(a, b, f"{where}[{i}]")
    else:
        assert found == recorded, where


Start = Callable[..., Any]


def test_what_is_refused_for_want_of_a_key_is_as_it_was_recorded(start: Start, bundle: Bundle) -> None:
    flags = ("--api-key", "a-secret-of-enough-length", "--drain", "0")
    with start("--model", str(bundle.path), *flags) as (address, _):
        for name, path in (("native", "/embed"), ("openai", "/v1/embeddings"), ("kserve", "/v2"), ("other", "/x")):
            answer = httpx.post(address + path, headers={"x-api-key": "wrong"} if name == "openai" else {})
            headers = [[key, "*" if key in VARYING else value] for key, value in answer.headers.multi_items()]
            found = {"status": answer.status_code, "headers": headers, "body": said(answer, bundle)}
            compare(RECORDED / "answers" / f"unauthorized_{name}.json", found)
