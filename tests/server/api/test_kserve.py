"""Triton's client, and KServe's protocol by hand, against a real server process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from nonneg_client import Encoder
from nonneg_runtime.bundle.bundle_folder import Bundle

Paint = Callable[[int], bytes]
Uri = Callable[[int], str]
BROKEN = b"\x89PNG\r\n\x1a\n and no more"


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
        ({"inputs": [{**IMAGE, "name": "sound"}]}, "input 'sound' of BYTES is not known"),
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


def test_errors_that_the_answer_has_no_place_for_are_refused(kserve: triton.InferenceServerClient, png: Paint) -> None:
    files = triton.InferInput("image", [1], "BYTES")
    files.set_data_from_numpy(np.array([png(0)], dtype=object))
    with pytest.raises(InferenceServerException, match="ask for the output error"):
        kserve.infer("tiny", [files], outputs=[triton.InferRequestedOutput("nnz")], parameters={"errors": "item"})


@pytest.mark.anyio
async def test_pixels_have_the_limit_that_files_have(client_for: Callable[..., httpx.AsyncClient]) -> None:
    tensor = {"name": "pixels", "shape": [2, 10, 11, 3], "datatype": "UINT8", "data": [7] * 660}
    async with client_for(max_pixels=109) as client:
        answer = await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})
        assert (answer.status_code, "the limit of 109" in answer.json()["error"]) == (413, True)
    async with client_for(max_pixels=110) as client:
        assert (await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})).status_code == 200
