"""TEI's requests against a real server process."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from nonneg_runtime.bundle.bundle_folder import Bundle

Paint = Callable[[int], bytes]
Uri = Callable[[int], str]


def test_tei_info_names_the_model_and_its_width(served: str, bundle: Bundle) -> None:
    info = httpx.get(served + "/info").json()
    assert (info["model_id"], info["model_sha"], info["embedding_size"]) == ("tiny", bundle.manifest.fingerprint, 48)


@pytest.mark.parametrize("asked", [{"normalize": True}, {"dimensions": 8, "truncate": True}, {"normalize": False}])
def test_tei_embeds_one_input_or_many(served: str, local: Any, png: Paint, png_uri: Uri, asked: dict[str, Any]) -> None:
    options = {name: value for name, value in asked.items() if name != "truncate"}
    images = [png_uri(0), base64.b64encode(png(1)).decode()]
    many = httpx.post(served + "/embed", json={"inputs": images, **asked}).json()
    np.testing.assert_allclose(np.float32(many), local(png(0), png(1), **options), rtol=1e-6)
    one = httpx.post(served + "/embed", json={"inputs": images[0], **asked}).json()
    assert one == many[:1]


@pytest.mark.parametrize("path", ["", "/embed"])
def test_hugging_faces_client_embeds(served: str, local: Any, png: Paint, png_uri: Uri, path: str) -> None:
    pytest.importorskip("huggingface_hub", minversion="2")  # before, its client knew no `dimensions`
    client = InferenceClient(model=served + path, token="none")
    found = client.feature_extraction([png_uri(0), png_uri(1)], dimensions=8, truncate=True)
    np.testing.assert_allclose(found, local(png(0), png(1), dimensions=8), rtol=1e-6)
    with pytest.raises(HfHubHTTPError) as refused:
        client.feature_extraction("a photo of a cat")
    assert refused.value.response.status_code == 422
    assert refused.value.response.json()["error_type"] == "validation"


def test_tei_answers_active_dimensions_alone(served: str, local: Any, png: Paint, png_uri: Uri) -> None:
    (row,) = httpx.post(served + "/embed_sparse", json={"inputs": png_uri(0), "top_k": 3}).json()
    z = local(png(0), top_k=3)[0]
    assert [entry["index"] for entry in row] == np.flatnonzero(z).tolist()
    np.testing.assert_allclose([entry["value"] for entry in row], z[z > 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/embed", {"inputs": ["a photo of a cat"]}, 422),
        ("/embed", {"inputs": []}, 422),
        ("/embed", {"inputs": [[1, 2]]}, 422),
        ("/embed", {"inputs": "AAAA", "prompt_name": "query"}, 422),
        ("/embed", {"inputs": "AAAA", "dimensions": 900}, 422),
        ("/embed", {"inputs": "AAAA", "model": "other"}, 404),
        ("/embed?dimensions=8", {"inputs": "AAAA"}, 422),
        ("/embed_sparse", {"images": ["AAAA"]}, 422),
        ("/", {"images": ["AAAA"]}, 422),
    ],
)
def test_tei_errors_have_teis_shape(served: str, path: str, body: dict[str, Any], status: int) -> None:
    answer = httpx.post(served + path, json=body)
    assert (answer.status_code, set(answer.json())) == (status, {"error", "error_type"}), answer.text
    assert answer.json()["error_type"] == "validation"


def test_a_body_in_both_dialects_is_the_native_ones_error(served: str) -> None:
    answer = httpx.post(served + "/embed", json={"inputs": "AAAA", "images": ["AAAA"]})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "inputs")


def test_tei_health_is_an_empty_answer(served: str) -> None:
    answer = httpx.get(served + "/health")
    assert (answer.status_code, answer.content) == (200, b"")
