"""The real openai, cohere and tritonclient packages against a real server process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import cohere
import httpx
import numpy as np
import openai
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from nonneg_client.embeddings import Embeddings
from nonneg_runtime.bundle import Bundle
from nonneg_server import Encoder

Paint = Callable[[int], bytes]


def uri(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def local(bundle: Bundle) -> Iterator[Callable[..., np.ndarray]]:
    """What the encoder in this process answers."""
    with Encoder(bundle) as encoder:

        def embed(*images: bytes, **options: Any) -> np.ndarray:
            found: Embeddings = encoder.embed(list(images), **options)
            return found.numpy()

        yield embed


@pytest.fixture(scope="module")
def ask(served: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served + "/v1", api_key="none", max_retries=0) as client:
        yield client


def test_openai_embeds_by_default_in_base64(ask: openai.OpenAI, local: Any, png: Paint) -> None:
    answer = ask.embeddings.create(model="tiny", input=[uri(png(0)), uri(png(1))], dimensions=20)
    assert (answer.object, answer.model, answer.usage.total_tokens) == ("list", "tiny", 0)
    assert [item.index for item in answer.data] == [0, 1]
    np.testing.assert_array_equal(
        np.float32([item.embedding for item in answer.data]), local(png(0), png(1), dimensions=20)
    )


def test_openai_embeds_in_floats_at_full_length_with_extras(ask: openai.OpenAI, local: Any, png: Paint) -> None:
    answer = ask.embeddings.create(
        model="tiny",
        input=uri(png(0)),
        encoding_format="float",
        dimensions=48,
        extra_body={"top_k": 3, "modality": "image"},
    )
    np.testing.assert_allclose(np.float32(answer.data[0].embedding), local(png(0), top_k=3)[0], rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda u: {"image": u}, lambda u: {"type": "image_url", "image_url": {"url": u}}])
def test_images_may_stand_in_objects(ask: openai.OpenAI, local: Any, png: Paint, wrap: Any) -> None:
    answer = ask.embeddings.create(model="tiny", input=[wrap(uri(png(0)))])
    np.testing.assert_array_equal(np.float32(answer.data[0].embedding), local(png(0))[0])


LIVE = [
    {"input": lambda part: [{"content": [part]}]},
    {"input": lambda part: {"content": [part]}},
    {"messages": lambda part: [{"role": "user", "content": [part]}]},
    {"messages": lambda part: [{"role": "user", "content": [part]}], "add_special_tokens": lambda _: False},
]


@pytest.mark.parametrize("body", LIVE, ids=lambda body: "-".join(body))
def test_openai_takes_images_as_other_servers_clients_send_them(
    ask: openai.OpenAI, local: Any, png: Paint, body: dict[str, Callable[[Any], Any]]
) -> None:
    part = {"type": "image_url", "image_url": {"url": uri(png(0))}}
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
        ({"input": ["a photo of a cat"]}, openai.UnprocessableEntityError, "image_unreadable", "input[0]"),
        ({"input": [1, 2]}, openai.UnprocessableEntityError, "parameter_invalid", "input"),
        ({"input": []}, openai.UnprocessableEntityError, "parameter_invalid", "input"),
        ({"extra_body": {"prefix": 1}}, openai.UnprocessableEntityError, "parameter_invalid", "prefix"),
    ],
)
def test_openai_raises_its_own_errors(
    ask: openai.OpenAI, png: Paint, wanted: dict[str, Any], kind: Any, code: str, param: str
) -> None:
    with pytest.raises(kind) as raised:
        ask.embeddings.create(**{"model": "tiny", "input": [uri(png(0))], **wanted})
    assert (raised.value.code, raised.value.param, raised.value.type) == (code, param, "invalid_request_error")


def test_a_missing_body_in_openais_dialect_is_openais_error(served: str) -> None:
    answer = httpx.post(served + "/v1/embeddings", content=b"{}", headers={"content-type": "application/json"})
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert httpx.get(served + "/v1/nothing").json()["error"]["code"] == "not_found"


def test_cohere_answers_several_types_at_once(served: str, local: Any, png: Paint) -> None:
    with httpx.Client() as http:
        answer = cohere.ClientV2(api_key="none", base_url=served, httpx_client=http).embed(
            model="tiny",
            input_type="image",
            images=[uri(png(0)), uri(png(1))],
            embedding_types=["float", "int8", "uint8", "binary", "ubinary"],
            output_dimension=20,
        )
    z = local(png(0), png(1), dimensions=20)
    found = answer.embeddings
    np.testing.assert_array_equal(np.float32(found.float_), z)
    np.testing.assert_array_equal(np.array(found.int8), np.rint(z * 127))
    np.testing.assert_array_equal(np.array(found.uint8), np.rint(z * 255))
    bits = np.packbits(z > 0, axis=1)
    np.testing.assert_array_equal(np.array(found.ubinary), bits)
    np.testing.assert_array_equal(np.array(found.binary), bits.astype(int) - 128)


def test_cohere_takes_inputs_and_answers_base64(served: str, local: Any, png: Paint) -> None:
    content = {"content": [{"type": "image_url", "image_url": {"url": uri(png(0))}}]}
    body = {"model": "tiny", "input_type": "image", "inputs": [content], "embedding_types": ["base64"]}
    answer = httpx.post(served + "/v2/embed", json=body).json()
    assert answer["response_type"] == "embeddings_by_type"
    found = np.frombuffer(base64.b64decode(answer["embeddings"]["base64"][0]), "<f4")
    np.testing.assert_array_equal(found, local(png(0))[0])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"texts": ["a"]}, "not texts"),
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


@pytest.fixture(scope="module")
def kserve(served: str) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(served.removeprefix("http://"))
    yield client
    client.close()


def test_triton_sees_a_live_ready_server_and_its_model(kserve: triton.InferenceServerClient) -> None:
    assert kserve.is_server_live()
    assert kserve.is_server_ready()
    assert kserve.is_model_ready("tiny")
    assert not kserve.is_model_ready("other")
    assert kserve.get_server_metadata()["name"] == "nonneg"
    assert kserve.get_model_metadata("tiny")["outputs"][0]["shape"] == [-1, 48]
    assert kserve.get_model_metadata("tiny", "1")["versions"] == ["1"]


@pytest.mark.parametrize("binary_out", [True, False])
def test_triton_sends_files_in_binary(
    kserve: triton.InferenceServerClient, local: Any, png: Paint, binary_out: bool
) -> None:
    files = triton.InferInput("image", [2], "BYTES")
    files.set_data_from_numpy(np.array([png(0), png(1)], dtype=object))
    outputs = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("embedding", "nnz")]
    answer = kserve.infer("tiny", [files], outputs=outputs, request_id="r1", parameters={"dimensions": 20, "top_k": 4})
    z = local(png(0), png(1), dimensions=20, top_k=4)
    assert answer.get_response()["id"] == "r1"
    np.testing.assert_allclose(answer.as_numpy("embedding"), z, rtol=1e-6)
    np.testing.assert_array_equal(answer.as_numpy("nnz"), (z > 0).sum(axis=1))


@pytest.mark.parametrize("binary", [True, False])
def test_triton_sends_pixels(kserve: triton.InferenceServerClient, bundle: Bundle, binary: bool) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    tensor = triton.InferInput("pixels", list(pixels.shape), "UINT8")
    tensor.set_data_from_numpy(pixels, binary_data=binary)
    found = kserve.infer("tiny", [tensor]).as_numpy("embedding")
    with Encoder(bundle) as encoder:
        np.testing.assert_allclose(found, encoder.embed(list(pixels)).numpy(), rtol=1e-6)


def test_triton_sends_files_in_json_as_base64(served: str, local: Any, png: Paint) -> None:
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [base64.b64encode(png(0)).decode()]}
    answer = httpx.post(served + "/v2/models/tiny/versions/1/infer", json={"inputs": [tensor]}).json()
    np.testing.assert_allclose(np.float32(answer["outputs"][0]["data"]), local(png(0))[0], rtol=1e-6)


def test_triton_raises_our_message(kserve: triton.InferenceServerClient, png: Paint) -> None:
    files = triton.InferInput("image", [1], "BYTES")
    files.set_data_from_numpy(np.array([png(0)], dtype=object))
    with pytest.raises(InferenceServerException, match="exceeds this model's 48"):
        kserve.infer("tiny", [files], parameters={"dimensions": 49})
    with pytest.raises(InferenceServerException, match="no model 'other'"):
        kserve.infer("other", [files])


IMAGE: dict[str, Any] = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["AAAA"]}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"inputs": []}, "inputs"),
        ({"inputs": [{**IMAGE, "shape": [2]}]}, "shape"),
        ({"inputs": [{**IMAGE, "shape": [-1]}]}, "shape"),
        ({"inputs": [{**IMAGE, "name": "text"}]}, "no input 'text'"),
        ({"inputs": [{**IMAGE, "data": ["?"]}]}, "not base64"),
        ({"inputs": [{**IMAGE, "data": None}]}, "no data"),
        ({"inputs": [{**IMAGE, "parameters": {"binary_data_size": 4}}]}, "binary_data_size"),
        ({"parameters": {"temperature": 1}}, "temperature"),
        ({"outputs": [{"name": "logits"}]}, "logits"),
        ({"inputs": [{"name": "pixels", "shape": [1, 2, 2, 3], "datatype": "UINT8", "data": [300] * 12}]}, "0 to 255"),
        ({"inputs": [{"name": "pixels", "shape": [1, 2, 2], "datatype": "UINT8", "data": [3] * 4}]}, "shape"),
    ],
)
def test_a_broken_inference_request_is_explained(served: str, change: dict[str, Any], what: str) -> None:
    answer = httpx.post(served + "/v2/models/tiny/infer", json={"inputs": [IMAGE], **change})
    assert 400 <= answer.status_code < 500
    assert what in answer.json()["error"]


def test_triton_reads_a_models_configuration(kserve: triton.InferenceServerClient) -> None:
    config, metadata = kserve.get_model_config("tiny"), kserve.get_model_metadata("tiny", "1")
    assert (config["name"], config["max_batch_size"]) == ("tiny", 0)
    for side in ("input", "output"):
        tensors = [(tensor["name"], tensor["dims"]) for tensor in config[side]]
        assert tensors == [(tensor["name"], tensor["shape"]) for tensor in metadata[f"{side}s"]]
    with pytest.raises(InferenceServerException, match="no version"):
        kserve.get_model_config("tiny", "7")


def test_triton_reads_statistics_that_grow_with_every_image(kserve: triton.InferenceServerClient, png: Paint) -> None:
    def ask(*model: str) -> dict[str, Any]:
        (found,) = kserve.get_inference_statistics(*model)["model_stats"]
        return dict(found)

    before, files = ask("tiny"), triton.InferInput("image", [3], "BYTES")
    files.set_data_from_numpy(np.array([png(0), BROKEN, png(1)], dtype=object))
    kserve.infer("tiny", [files], parameters={"errors": "item"})
    after = ask("tiny", "1")
    assert after["inference_count"] - before["inference_count"] == 2
    stats = {
        name: (after["inference_stats"][name], before["inference_stats"][name]) for name in after["inference_stats"]
    }
    assert {name: new["count"] - old["count"] for name, (new, old) in stats.items()} == {
        **dict.fromkeys(("success", "queue", "compute_input", "compute_infer", "compute_output"), 2),
        "fail": 1,
    }
    assert stats["compute_infer"][0]["ns"] > stats["compute_infer"][1]["ns"]
    assert after["last_inference"] > before["last_inference"]
    assert ask() == ask("tiny")


def test_triton_lists_the_models(kserve: triton.InferenceServerClient) -> None:
    assert kserve.get_model_repository_index() == [{"name": "tiny", "version": "1", "state": "READY", "reason": ""}]
    assert {"model_configuration", "statistics"} <= set(kserve.get_server_metadata()["extensions"])


@pytest.mark.parametrize("length", ["x", "-1", "99999"])
def test_a_wrong_header_length_is_a_bad_request(served: str, length: str) -> None:
    answer = httpx.post(
        served + "/v2/models/tiny/infer", content=b"{}", headers={"Inference-Header-Content-Length": length}
    )
    assert answer.status_code == 400


def test_tei_info_names_the_model_and_its_width(served: str, bundle: Bundle) -> None:
    info = httpx.get(served + "/info").json()
    assert (info["model_id"], info["model_sha"], info["embedding_size"]) == ("tiny", bundle.manifest.fingerprint, 48)


@pytest.mark.parametrize("asked", [{"normalize": True}, {"dimensions": 8, "truncate": True}, {"normalize": False}])
def test_tei_embeds_one_input_or_many(served: str, local: Any, png: Paint, asked: dict[str, Any]) -> None:
    options = {name: value for name, value in asked.items() if name != "truncate"}
    images = [uri(png(0)), base64.b64encode(png(1)).decode()]
    many = httpx.post(served + "/embed", json={"inputs": images, **asked}).json()
    np.testing.assert_allclose(np.float32(many), local(png(0), png(1), **options), rtol=1e-6)
    one = httpx.post(served + "/embed", json={"inputs": images[0], **asked}).json()
    assert one == many[:1]


def test_tei_answers_active_dimensions_alone(served: str, local: Any, png: Paint) -> None:
    (row,) = httpx.post(served + "/embed_sparse", json={"inputs": uri(png(0)), "top_k": 3}).json()
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


BROKEN = b"\x89PNG\r\n\x1a\n and no more"


@pytest.mark.parametrize("encoding", ["default", "float"])
def test_with_openai_one_bad_image_need_not_fail_the_others(
    ask: openai.OpenAI, local: Any, png: Paint, encoding: Any
) -> None:
    chosen = {} if encoding == "default" else {"encoding_format": encoding}
    images = [uri(png(0)), uri(BROKEN), "not base64", uri(png(1))]
    answer = ask.embeddings.create(model="tiny", input=images, extra_body={"errors": "item"}, **chosen)
    assert [item.index for item in answer.data] == [0, 1, 2, 3]
    good = [item.embedding for item in answer.data if not hasattr(item, "error")]
    np.testing.assert_allclose(np.float32(good), local(png(0), png(1)), rtol=1e-6)
    assert {len(item.embedding) for item in answer.data} == {48}
    bad = answer.data[1]
    assert not any(bad.embedding)
    assert (bad.error["code"], bad.error["param"]) == ("image_unreadable", "input[1]")
    assert set(bad.error) == {"message", "type", "param", "code"}


def test_with_cohere_one_bad_image_need_not_fail_the_others(served: str, local: Any, png: Paint) -> None:
    with httpx.Client() as http:
        answer = cohere.ClientV2(api_key="none", base_url=served, httpx_client=http).embed(
            model="tiny",
            input_type="image",
            images=[uri(png(0)), uri(BROKEN), uri(png(1))],
            embedding_types=["float", "ubinary"],
            request_options={"additional_body_parameters": {"errors": "item"}},
        )
    z = local(png(0), png(1))
    floats, bits = answer.embeddings.float_, answer.embeddings.ubinary
    assert (floats[1], bits[1]) == ([0.0] * len(floats[0]), [0] * len(bits[0]))
    np.testing.assert_allclose(np.float32([floats[0], floats[2]]), z, rtol=1e-6)
    np.testing.assert_array_equal(np.array([bits[0], bits[2]]), np.packbits(z > 0, axis=1))
    (failed,) = answer.errors
    assert (failed["index"], failed["type"]) == (1, "image_unreadable")
    assert answer.meta.warnings[0].startswith("image 1: ")
    assert answer.meta.billed_units.images == 2


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_with_triton_one_bad_image_need_not_fail_the_others(
    kserve: triton.InferenceServerClient, local: Any, png: Paint, binary: bool, named: bool
) -> None:
    files = triton.InferInput("image", [3], "BYTES")
    files.set_data_from_numpy(np.array([png(0), BROKEN, png(1)], dtype=object))
    outputs = [triton.InferRequestedOutput(n, binary_data=binary) for n in ("embedding", "nnz", "error")]
    answer = kserve.infer("tiny", [files], outputs=outputs if named else None, parameters={"errors": "item"})
    z = answer.as_numpy("embedding")
    np.testing.assert_allclose(z[[0, 2]], local(png(0), png(1)), rtol=1e-6)
    assert not z[1].any()
    texts = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy("error")]
    assert (texts[0], texts[2]) == ("", "")
    assert texts[1].startswith("image_unreadable: ")
    if named:
        assert answer.as_numpy("nnz")[1] == 0


def test_errors_that_nobody_would_see_are_refused(kserve: triton.InferenceServerClient, png: Paint) -> None:
    files = triton.InferInput("image", [1], "BYTES")
    files.set_data_from_numpy(np.array([png(0)], dtype=object))
    with pytest.raises(InferenceServerException, match="ask for the output error"):
        kserve.infer("tiny", [files], outputs=[triton.InferRequestedOutput("nnz")], parameters={"errors": "item"})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"model": "tiny", "input": ["AAAA"]}),
        ("/v2/embed", {"model": "tiny", "images": ["AAAA"], "embedding_types": ["base64", "int8"]}),
        ("/v2/models/tiny/infer", {"inputs": [{**IMAGE, "data": ["?"]}]}),
    ],
)
def test_even_when_every_image_is_bad_each_has_its_error(served: str, path: str, body: dict[str, Any]) -> None:
    asked = {"errors": "item"}
    whole = {**body, "parameters": asked} if "infer" in path else {**body, **asked}
    assert httpx.post(served + path, json=body).status_code in (415, 422)
    answer = httpx.post(served + path, json=whole)
    assert answer.status_code == 200, answer.text
    assert "base64" in answer.text or "no image of a known format" in answer.text


@pytest.mark.anyio
async def test_pixels_have_the_limit_that_files_have(client_for: Callable[..., httpx.AsyncClient]) -> None:
    tensor = {"name": "pixels", "shape": [2, 10, 11, 3], "datatype": "UINT8", "data": [7] * 660}
    async with client_for(max_pixels=109) as client:
        answer = await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})
        assert (answer.status_code, "the limit of 109" in answer.json()["error"]) == (413, True)
    async with client_for(max_pixels=110) as client:
        assert (await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})).status_code == 200
