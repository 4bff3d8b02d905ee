"""Texts in every dialect, against a real server with the default model: each is the vector of its words."""

from __future__ import annotations

import base64
from typing import Any

import cohere
import httpx
import numpy as np
import openai
import pytest
import tritonclient.http as triton

from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.words.text_vector import vector_of

TEXTS = ["a golden retriever", "strawberries on a table"]
LONG = "dog " * 65  # tokens


@pytest.fixture(scope="module")
def expected():
    return np.stack([vector_of(open_bundle(), text) for text in TEXTS])


@pytest.fixture(scope="module")
def picture(photos):
    return base64.b64encode((photos / "cat" / "cat-0.jpg").read_bytes()).decode()


def ask(server: str, path: str = "/embed", **body: Any) -> httpx.Response:
    return httpx.post(f"{server}{path}", json=body, timeout=60)


def test_native_texts_are_vectors_in_their_order(server, expected):
    data = ask(server, texts=TEXTS, format="dense").json()["data"]
    np.testing.assert_allclose([row["embedding"] for row in data], expected, atol=1e-6)


def test_images_and_texts_mix_in_one_order_and_each_has_its_own_error(server, picture, expected):
    inputs = [{"text": TEXTS[0]}, {"image": picture}, {"text": " "}, {"text": TEXTS[1]}, {"text": 3}]
    data = ask(server, inputs=inputs, format="dense").json()["data"]
    alone = ask(server, images=[picture], format="dense").json()["data"][0]["embedding"]
    for place, vector in ((0, expected[0]), (1, alone), (3, expected[1])):
        np.testing.assert_allclose(data[place]["embedding"], vector, atol=1e-5)
    assert data[2]["error"]["field"] == "inputs[2].text"
    assert {data[2]["error"]["type"], data[4]["error"]["type"]} == {"parameter_invalid"}


def test_openai_takes_strings(server, expected):
    with openai.OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0) as client:
        found = client.embeddings.create(model="photo", input=TEXTS)  # base64, as the package asks by default
    np.testing.assert_allclose([row.embedding for row in found.data], expected, atol=1e-6)
    content = [{"content": [{"type": "text", "text": TEXTS[0]}]}]
    one = ask(server, "/v1/embeddings", model="photo", input=content).json()["data"][0]["embedding"]
    np.testing.assert_allclose(one, expected[0], atol=1e-6)


def test_cohere_takes_texts(server, expected):
    with httpx.Client() as http:
        client = cohere.ClientV2(api_key="none", base_url=server, httpx_client=http)
        found = client.embed(model="photo", texts=TEXTS, input_type="search_query", embedding_types=["float"])
    np.testing.assert_allclose(found.embeddings.float_, expected, atol=1e-6)
    refused = ask(server, "/v2/embed", model="photo", texts=[LONG])
    assert refused.status_code == 422
    assert ask(server, "/v2/embed", model="photo", texts=[LONG], truncate="END").status_code == 200


def test_tei_takes_inputs(server, picture, expected):
    np.testing.assert_allclose(ask(server, inputs=TEXTS).json(), expected, atol=1e-6)
    np.testing.assert_allclose(ask(server, inputs=TEXTS[0]).json(), expected[:1], atol=1e-6)
    assert len(ask(server, inputs=[picture, TEXTS[0]]).json()) == 2
    assert ask(server, inputs=[LONG]).status_code == 422
    assert ask(server, inputs=[LONG], truncate=True).status_code == 200


@pytest.mark.parametrize("binary", [True, False])
def test_kserve_takes_bytes_of_text(server, expected, binary):
    client = triton.InferenceServerClient(server.removeprefix("http://"))
    given = triton.InferInput("text", [2], "BYTES")
    given.set_data_from_numpy(np.array([text.encode() for text in TEXTS], dtype=object), binary_data=binary)
    found = client.infer("photo", [given]).as_numpy("embedding")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    client.close()


def test_text_that_is_not_utf8_is_refused(server):
    client = triton.InferenceServerClient(server.removeprefix("http://"))
    given = triton.InferInput("text", [1], "BYTES")
    given.set_data_from_numpy(np.array([b"d\xffg"], dtype=object))
    with pytest.raises(triton.InferenceServerException, match="not UTF-8"):
        client.infer("photo", [given])
    client.close()
    raw = httpx.post(f"{server}/embed", content=b'{"texts": ["d\xffg"]}', headers={"content-type": "application/json"})
    assert (raw.status_code, raw.json()["error"]["type"]) == (400, "request_invalid")


@pytest.mark.parametrize(
    ("body", "status", "kind", "field"),
    [
        ({"texts": [""]}, 422, "parameter_invalid", "texts[0]"),
        ({"texts": [" \n"]}, 422, "parameter_invalid", "texts[0]"),
        ({"texts": []}, 422, "parameter_invalid", "texts"),
        ({"texts": "dog"}, 422, "parameter_invalid", "texts"),
        ({"texts": [3]}, 422, "parameter_invalid", "texts[0]"),
        ({"texts": [LONG]}, 422, "parameter_invalid", "texts[0]"),
        ({"texts": ["x" * 5000]}, 422, "parameter_invalid", "texts[0]"),
        ({"texts": ["dog"] * 10_000}, 413, "too_many_images", "max_images"),
        ({"texts": ["dog"], "images": ["AAAA"]}, 422, "parameter_invalid", "texts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_with_a_text_is_told(server, body, status, kind, field):
    answer = ask(server, **body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["field"]) == (status, kind, field)
    assert error["fix"]


@pytest.mark.parametrize("text", ["a photo of", "dogg", "no dog", "sunset at the beach", "dog"])
def test_no_text_is_refused_at_any_length_and_with_any_number_of_values(server, text):
    for asked in ({"dimensions": 64}, {"dimensions": 512, "top_k": 32}, {"top_k": 64}):
        (row,) = ask(server, texts=[text], **asked).json()["data"]
        assert 0 < len(row["indices"]) <= 64


def test_a_long_text_is_read_to_its_limit_if_that_is_asked(server):
    long, longer = ask(server, texts=[LONG, LONG * 3], truncate=True).json()["data"]
    assert long["indices"] == longer["indices"]


def test_a_model_without_words_says_so_with_the_fix(served):
    error = ask(served, texts=["dog"]).json()["error"]
    assert (error["type"], error["field"]) == ("lexicon_missing", "texts[0]")
    assert "photo" in error["fix"]
