"""The cohere package against a real server process."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import cohere
import httpx
import numpy as np
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.pipeline.request_pipeline import bit_form

Paint = Callable[[int], bytes]
Uri = Callable[[int], str]
BROKEN = b"\x89PNG\r\n\x1a\n and no more"
BROKEN_URI = "data:image/png;base64," + base64.b64encode(BROKEN).decode()


def test_cohere_answers_several_types_at_once(
    served: str, bundle: Bundle, local: Any, png: Paint, png_uri: Uri
) -> None:
    with httpx.Client() as http:
        answer = cohere.ClientV2(api_key="none", base_url=served, httpx_client=http).embed(
            model="tiny",
            input_type="image",
            images=[png_uri(0), png_uri(1)],
            embedding_types=["float", "int8", "uint8", "binary", "ubinary"],
            output_dimension=20,
        )
    z = local(png(0), png(1), dimensions=20)
    found = answer.embeddings
    np.testing.assert_array_equal(np.float32(found.float_), z)
    np.testing.assert_array_equal(np.array(found.int8), np.rint(z * 127))
    np.testing.assert_array_equal(np.array(found.uint8), np.rint(z * 255))
    bits = bit_form(bundle.manifest).first(20).pack(local(png(0), png(1)))
    np.testing.assert_array_equal(np.array(found.ubinary), bits)
    np.testing.assert_array_equal(np.array(found.binary), bits.astype(int) - 128)


def test_cohere_takes_inputs_and_answers_base64(served: str, local: Any, png: Paint, png_uri: Uri) -> None:
    content = {"content": [{"type": "image_url", "image_url": {"url": png_uri(0)}}]}
    body = {"model": "tiny", "input_type": "image", "inputs": [content], "embedding_types": ["base64"]}
    answer = httpx.post(served + "/v2/embed", json=body).json()
    assert answer["response_type"] == "embeddings_by_type"
    found = np.frombuffer(base64.b64decode(answer["embeddings"]["base64"][0]), "<f4")
    np.testing.assert_array_equal(found, local(png(0))[0])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"texts": ["a"]}, "knows no words"),
        ({}, "exactly one"),
        ({"images": ["x"], "inputs": []}, "exactly one"),
        ({"inputs": [{"content": []}]}, "exactly one image"),
        ({"images": []}, "no image"),
        ({"images": ["x"], "embedding_types": ["half"]}, "embedding_types"),
        ({"images": ["x"], "colour": 1}, "colour"),
    ],
)
def test_coheres_errors_are_messages(served: str, body: dict[str, Any], what: str) -> None:
    answer = httpx.post(served + "/v2/embed", json={"model": "tiny", **body})
    assert answer.status_code == 422
    assert set(answer.json()) == {"id", "message"}
    assert what in answer.json()["message"]


def test_with_cohere_one_bad_image_need_not_fail_the_others(
    served: str, bundle: Bundle, local: Any, png: Paint, png_uri: Uri
) -> None:
    with httpx.Client() as http:
        answer = cohere.ClientV2(api_key="none", base_url=served, httpx_client=http).embed(
            model="tiny",
            input_type="image",
            images=[png_uri(0), BROKEN_URI, png_uri(1)],
            embedding_types=["float", "ubinary"],
            request_options={"additional_body_parameters": {"errors": "item"}},
        )
    z = local(png(0), png(1))
    floats, bits = answer.embeddings.float_, answer.embeddings.ubinary
    assert (floats[1], bits[1]) == ([0.0] * len(floats[0]), [0] * len(bits[0]))
    np.testing.assert_allclose(np.float32([floats[0], floats[2]]), z, rtol=1e-6)
    np.testing.assert_array_equal(np.array([bits[0], bits[2]]), bit_form(bundle.manifest).pack(z))
    (failed,) = answer.errors
    assert (failed["index"], failed["type"]) == (1, "image_unreadable")
    assert answer.meta.warnings[0].startswith("image 1: ")
    assert answer.meta.billed_units.images == 2
