"""The openai package against a real server process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

Paint = Callable[[int], bytes]
Uri = Callable[[int], str]
BROKEN = b"\x89PNG\r\n\x1a\n and no more"
BROKEN_URI = "data:image/png;base64," + base64.b64encode(BROKEN).decode()


@pytest.fixture(scope="module")
def ask(served: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served + "/v1", api_key="none", max_retries=0) as client:
        yield client


def test_openai_embeds_by_default_in_base64(
    ask: openai.OpenAI, bundle: Bundle, local: Any, png: Paint, png_uri: Uri
) -> None:
    answer = ask.embeddings.create(model="tiny", input=[png_uri(0), png_uri(1)], dimensions=20)
    assert (answer.object, answer.model, answer.usage.total_tokens) == ("list", bundle.manifest.pinned, 0)
    assert [item.index for item in answer.data] == [0, 1]
    np.testing.assert_array_equal(
        np.float32([item.embedding for item in answer.data]), local(png(0), png(1), dimensions=20)
    )


def test_openai_embeds_in_floats_at_full_length_with_extras(
    ask: openai.OpenAI, local: Any, png: Paint, png_uri: Uri
) -> None:
    answer = ask.embeddings.create(
        model="tiny",
        input=png_uri(0),
        encoding_format="float",
        dimensions=48,
        extra_body={"top_k": 3, "modality": "image"},
    )
    np.testing.assert_allclose(np.float32(answer.data[0].embedding), local(png(0), top_k=3)[0], rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda u: {"image": u}, lambda u: {"type": "image_url", "image_url": {"url": u}}])
def test_images_may_stand_in_objects(ask: openai.OpenAI, local: Any, png: Paint, png_uri: Uri, wrap: Any) -> None:
    answer = ask.embeddings.create(model="tiny", input=[wrap(png_uri(0))])
    np.testing.assert_array_equal(np.float32(answer.data[0].embedding), local(png(0))[0])


LIVE = [
    {"input": lambda part: [{"content": [part]}]},
    {"input": lambda part: {"content": [part]}},
    {"messages": lambda part: [{"role": "user", "content": [part]}]},
    {"messages": lambda part: [{"role": "user", "content": [part]}], "add_special_tokens": lambda _: False},
]


@pytest.mark.parametrize("body", LIVE, ids=lambda body: "-".join(body))
def test_openai_takes_images_as_other_servers_clients_send_them(
    ask: openai.OpenAI, local: Any, png: Paint, png_uri: Uri, body: dict[str, Callable[[Any], Any]]
) -> None:
    part = {"type": "image_url", "image_url": {"url": png_uri(0)}}
    asked = {"model": "tiny", **{name: of(part) for name, of in body.items()}}
    answer = ask.post("/embeddings", cast_to=openai.types.CreateEmbeddingResponse, body=asked)
    np.testing.assert_allclose(np.float32([item.embedding for item in answer.data]), local(png(0)), rtol=1e-6)


TEXT = {"type": "text", "text": "Represent the given image."}


PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": [{"role": "user", "content": [PART, TEXT]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [PART]}, {"role": "user", "content": [PART]}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a cat"}]}, "messages.content[0]"),
        ({"messages": []}, "messages"),
        ({"messages": [PART], "input": "AAAA"}, "messages"),
        ({"input": [{"content": [PART, TEXT]}]}, "input[0]"),
        ({"input": [{"content": []}, {"content": [PART]}]}, "input[0]"),
        ({}, "input"),
    ],
)
def test_what_is_not_one_image_is_refused_and_not_passed_over(served: str, body: dict[str, Any], param: str) -> None:
    answer = httpx.post(served + "/v1/embeddings", json={"model": "tiny", **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, param), answer.text


def test_openai_lists_the_models(ask: openai.OpenAI) -> None:
    assert [model.id for model in ask.models.list()] == ["tiny"]
    assert ask.models.retrieve("tiny").owned_by == "nonneg"


@pytest.mark.parametrize(
    ("wanted", "kind", "code", "param"),
    [
        ({"model": "other"}, openai.NotFoundError, "model_not_found", "model"),
        ({"dimensions": 49}, openai.UnprocessableEntityError, "parameter_invalid", "dimensions"),
        ({"input": ["a photo of a cat"]}, openai.UnprocessableEntityError, "lexicon_missing", "input[0]"),
        ({"input": ["data:image/png;base64,?"]}, openai.UnprocessableEntityError, "image_unreadable", "input[0]"),
        ({"input": [1, 2]}, openai.UnprocessableEntityError, "parameter_invalid", "input"),
        ({"input": []}, openai.UnprocessableEntityError, "parameter_invalid", "input"),
        ({"extra_body": {"prefix": 1}}, openai.UnprocessableEntityError, "parameter_invalid", "prefix"),
    ],
)
def test_openai_raises_its_own_errors(
    ask: openai.OpenAI, png_uri: Uri, wanted: dict[str, Any], kind: Any, code: str, param: str
) -> None:
    with pytest.raises(kind) as raised:
        ask.embeddings.create(**{"model": "tiny", "input": [png_uri(0)], **wanted})
    assert (raised.value.code, raised.value.param, raised.value.type) == (code, param, "invalid_request_error")


def test_a_missing_body_in_openais_dialect_is_openais_error(served: str) -> None:
    answer = httpx.post(served + "/v1/embeddings", content=b"{}", headers={"content-type": "application/json"})
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert httpx.get(served + "/v1/nothing").json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("encoding", ["default", "float"])
def test_with_openai_one_bad_image_need_not_fail_the_others(
    ask: openai.OpenAI, local: Any, png: Paint, png_uri: Uri, encoding: Any
) -> None:
    chosen = {} if encoding == "default" else {"encoding_format": encoding}
    images = [png_uri(0), BROKEN_URI, "not base64", png_uri(1)]
    answer = ask.embeddings.create(model="tiny", input=images, extra_body={"errors": "item"}, **chosen)
    assert [item.index for item in answer.data] == [0, 1, 2, 3]
    good = [item.embedding for item in answer.data if not hasattr(item, "error")]
    np.testing.assert_allclose(np.float32(good), local(png(0), png(1)), rtol=1e-6)
    assert {len(item.embedding) for item in answer.data} == {48}
    bad = answer.data[1]
    assert not any(bad.embedding)
    assert (bad.error["code"], bad.error["param"]) == ("image_unreadable", "input[1]")
    assert set(bad.error) == {"message", "type", "param", "code"}
