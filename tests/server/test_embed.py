from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from nonneg_core.errors import ParameterInvalid
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import fast_resize
from nonneg_core.shortening import shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.evidence import Quality, QualityRow
from nonneg_runtime.inference.onnx_session import Session
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Registry
from nonneg_server.pipeline.request_pipeline import lengths_of
from nonneg_server.requests.parameters import Parameters
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio
PNG = {"content-type": "image/png"}


Paint = Callable[..., bytes]


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def expected(bundle: Bundle) -> Callable[..., np.ndarray]:
    """The slow, obvious second version: decode, view, run, shorten, one image after the other."""
    session = Session(bundle.encoder)

    def embed(data: bytes, dimensions: int | None = None, top_k: int | None = None, normalize: bool = True) -> Any:
        pixels = bundle.manifest.view.apply(decode(data), fast_resize())[None]
        return shorten(session.run(pixels)[0], dimensions, top_k, normalize=normalize)

    return embed


def dense(item: dict[str, Any], width: int) -> np.ndarray:
    z = np.zeros(width, np.float32)
    z[item["indices"]] = item["values"]
    return z


async def test_a_raw_image_gives_its_sparse_vector(
    png: Paint, client: httpx.AsyncClient, bundle: Bundle, expected: Any
) -> None:
    response = await client.post("/embed", content=png(), headers=PNG)
    answer = response.json()
    assert response.status_code == 200
    assert answer["model"] == "tiny"
    assert answer["fingerprint"] == bundle.manifest.fingerprint == response.headers["x-fingerprint"]
    assert (answer["dimensions"], answer["top_k"], answer["normalized"]) == (48, None, True)
    (item,) = answer["data"]
    assert item["indices"] == sorted(set(item["indices"]))
    assert item["nnz"] == len(item["indices"]) == len(item["values"]) > 0
    assert item["zero"] is False
    np.testing.assert_array_equal(dense(item, 48), expected(png()))


async def test_multipart_raw_and_json_give_the_same_vectors(png: Paint, client: httpx.AsyncClient) -> None:
    raw = (await client.post("/embed", content=png(), headers=PNG)).json()["data"]
    form = (await client.post("/embed", files=[("images", ("a.png", png()))])).json()["data"]
    plain = (await client.post("/embed", json={"images": [text(png())]})).json()["data"]
    uri = (await client.post("/embed", json={"images": ["data:image/png;base64," + text(png())]})).json()["data"]
    assert raw == form == plain == uri


async def test_an_image_that_curl_calls_a_form_is_read_as_the_image_it_is(
    png: Paint, client: httpx.AsyncClient
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}  # of `curl --data-binary @photo.jpg`
    asked = [await client.post("/embed", content=png(0), headers=headers) for headers in (form, PNG)]
    assert asked[0].json()["data"] == asked[1].json()["data"]
    refused = await client.post("/embed", content=b"image=cat", headers=form)
    assert (refused.status_code, refused.json()["error"]["type"]) == (415, "media_unsupported")


@pytest.mark.parametrize("dimensions", [None, 1, 17, 48])
@pytest.mark.parametrize("top_k", [None, 1, 3, 500])
@pytest.mark.parametrize("normalize", [True, False])
async def test_shortening_is_the_clients(
    png: Paint, client: httpx.AsyncClient, expected: Any, dimensions: int | None, top_k: int | None, normalize: bool
) -> None:
    wanted = {"dimensions": dimensions, "top_k": top_k, "normalize": normalize}
    body = {"images": [text(png(i)) for i in range(3)], "format": "both", **wanted}
    answer = (await client.post("/embed", json={k: v for k, v in body.items() if v is not None})).json()
    assert answer["dimensions"] == (dimensions or 48)
    for i, item in enumerate(answer["data"]):
        reference = expected(png(i), dimensions, top_k, normalize)
        np.testing.assert_allclose(np.float32(item["embedding"]), reference, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(dense(item, dimensions or 48), np.float32(item["embedding"]))


async def test_parameters_mean_the_same_in_query_form_and_json(png: Paint, client: httpx.AsyncClient) -> None:
    wanted: dict[str, Any] = {"dimensions": 20, "top_k": 4, "normalize": False, "format": "dense"}
    strings = {name: str(value).lower() for name, value in wanted.items()}
    query = await client.post("/embed", params=strings, content=png(), headers=PNG)
    form = await client.post("/embed", data=strings, files=[("images", ("a.png", png()))])
    body = await client.post("/embed", json={"images": [text(png())], **wanted})
    assert query.json() == form.json() == body.json()


async def test_one_bad_image_does_not_fail_the_others(png: Paint, client: httpx.AsyncClient) -> None:
    images = [text(png()), "!!!", text(b"no image"), text(png()[:200]), text(png(1))]
    response = await client.post("/embed", json={"images": images})
    assert response.status_code == 200
    data = response.json()["data"]
    assert [item["index"] for item in data] == [0, 1, 2, 3, 4]
    assert ["error" in item for item in data] == [False, True, True, True, False]
    assert [data[i]["error"]["type"] for i in (1, 2, 3)] == [
        "image_unreadable",
        "image_unsupported",
        "image_unreadable",
    ]
    assert data[2]["error"]["field"] == "images[2]"
    assert data[2]["error"]["fix"]


async def test_errors_fail_fails_the_request(png: Paint, client: httpx.AsyncClient) -> None:
    response = await client.post("/embed", json={"images": [text(png()), text(b"no image")], "errors": "fail"})
    assert response.status_code == 415
    assert response.json()["error"]["field"] == "images[1]"


async def test_an_image_without_active_dimensions_is_a_zero_vector(png: Paint, client: httpx.AsyncClient) -> None:
    wanted = {"dimensions": "1", "format": "both"}
    seen = [(await client.post("/embed", content=png(i), headers=PNG, params=wanted)).json() for i in range(12)]
    zero = [answer["data"][0] for answer in seen if answer["data"][0]["zero"]]
    assert zero
    assert zero[0] == {"index": 0, "indices": [], "values": [], "embedding": [0.0], "nnz": 0, "zero": True}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"dimensions": "0"}, "dimensions"),
        ({"dimensions": "49"}, "dimensions"),
        ({"dimensions": "ten"}, "dimensions"),
        ({"top_k": "-1"}, "top_k"),
        ({"format": "csr"}, "format"),
        ({"normalise": "true"}, "normalise"),
        ([("dimensions", "3"), ("dimensions", "4")], "dimensions"),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(
    png: Paint, client: httpx.AsyncClient, params: Any, field: str
) -> None:
    response = await client.post("/embed", params=params, content=png(), headers=PNG)
    error = response.json()["error"]
    assert response.status_code == 422
    assert (error["type"], error["field"]) == ("parameter_invalid", field)
    assert error["fix"]


async def test_a_parameter_in_query_and_body_is_refused(png: Paint, client: httpx.AsyncClient) -> None:
    response = await client.post("/embed", params={"top_k": "3"}, json={"images": [text(png())], "top_k": 3})
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "top_k"


@pytest.mark.parametrize(
    ("body", "kind", "status", "name"),
    [
        (b"", "image/png", 415, "image_unsupported"),
        (b"{", "application/json", 400, "request_invalid"),
        (b"[]", "application/json", 400, "request_invalid"),
        (b"{}", "application/json", 422, "parameter_invalid"),
        (b'{"images": "x"}', "application/json", 422, "parameter_invalid"),
        (b'{"images": []}', "application/json", 422, "parameter_invalid"),
        (b'{"images": [3]}', "application/json", 422, "parameter_invalid"),
        (b'{"images": ["http://x/y.png"]}', "application/json", 422, "parameter_invalid"),
        (b"x", "text/plain", 415, "media_unsupported"),
        (b"x", "multipart/form-data", 400, "request_invalid"),
        (b"x", "multipart/form-data; boundary=y", 400, "request_invalid"),
        (b"--y\r\nContent-Disposition: form-data", "multipart/form-data; boundary=y", 400, "request_invalid"),
        (b"--y--\r\n", "multipart/form-data; boundary=y", 422, "parameter_invalid"),
    ],
)
async def test_a_broken_body_has_its_own_answer(
    png: Paint, client: httpx.AsyncClient, body: bytes, kind: str, status: int, name: str
) -> None:
    response = await client.post("/embed", content=body, headers={"content-type": kind})
    assert (response.status_code, response.json()["error"]["type"]) == (status, name)
    assert response.json()["error"]["fix"]


async def test_limits_are_named(client_for: Callable[..., httpx.AsyncClient]) -> None:
    async with client_for(max_images=2, max_body=5000) as client:
        many = await client.post("/embed", json={"images": ["", "", ""]})
        heavy = await client.post("/embed", content=bytes(6000), headers=PNG)
    found = [(r.status_code, r.json()["error"]["type"], r.json()["error"]["limit"]) for r in (many, heavy)]
    assert found == [
        (413, "too_many_images", 2),
        (413, "body_too_large", 5000),
    ]


async def test_an_image_with_too_many_pixels_is_refused_by_its_header(png: Paint, bundle: Bundle) -> None:
    engine = InferenceEngine(bundle, threads=1, max_pixels=1000)
    app = create_app(Registry(engine), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        response = await client.post("/embed", content=png(), headers=PNG)
    engine.close()
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["limit"]) == (413, "image_too_large", 1000)


async def test_a_body_without_a_length_is_cut_at_the_limit(client_for: Callable[..., httpx.AsyncClient]) -> None:
    async def endless() -> Any:
        for _ in range(10_000):
            yield bytes(1000)

    async with client_for(max_body=5000) as client:
        response = await client.post("/embed", content=endless(), headers=PNG)
    assert response.status_code == 413


async def test_several_lengths_come_in_one_answer(png: Paint, client: httpx.AsyncClient, expected: Any) -> None:
    body = {"images": [text(png()), text(png(1)), "!"], "dimensions": [48, 8], "format": "dense"}
    answer = (await client.post("/embed", json=body)).json()
    query = (await client.post("/embed?dimensions=48,8&format=dense", content=png(), headers=PNG)).json()
    assert answer["dimensions"] == query["dimensions"] == [48, 8]
    assert answer["data"][0] == query["data"][0]
    for i in (0, 1):
        for found in answer["data"][i]["lengths"]:
            reference = expected(png(i), found["dimensions"])
            np.testing.assert_allclose(np.float32(found["embedding"]), reference, rtol=1e-6, atol=1e-7)
    assert "error" in answer["data"][2]


async def test_an_npy_is_answered_on_accept(png: Paint, client: httpx.AsyncClient, expected: Any) -> None:
    response = await client.post("/embed", content=png(), headers={**PNG, "accept": "application/x-npy"})
    assert response.headers["content-type"] == "application/x-npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(response.content))[0], expected(png()))
    refused = await client.post("/embed", content=png(), headers={**PNG, "accept": "text/csv"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (406, "not_acceptable")


def test_too_many_dimensions_are_answered_with_the_lengths_there_are_and_their_quality(bundle: Bundle) -> None:
    row = {"p_at_10": 0.0, "map_at_k": 0.0, "knn": 0.0, "zero_share": 0.0, "mean_nnz": 1.0, "bytes": 1.0}
    ranked = {"selection": "expected-activation", **row}
    rows = [
        {"dimensions": 8, "p_at_1": 0.75, **ranked},
        {"dimensions": 48, "p_at_1": 0.875, **ranked},
        {"dimensions": 48, "top_k": 4, "p_at_1": 0.5, **ranked},
        {"dimensions": 8, "p_at_1": 0.25, **row, "selection": "random"},
    ]
    quality = Quality.model_construct(rows=tuple(QualityRow(**row) for row in rows))
    manifest = bundle.manifest.model_copy(update={"quality": quality})
    with pytest.raises(ParameterInvalid) as refused:
        lengths_of(Parameters(dimensions=[8, 900]), manifest)
    assert refused.value.fix == "ask for at most 48 or omit it; P@1 as measured at each length: 48: 0.875, 8: 0.750"
    assert lengths_of(Parameters(dimensions=48), manifest) == (48,)
    with pytest.raises(ParameterInvalid) as narrower:  # stored vectors that were cut before
        lengths_of(Parameters(dimensions=9), manifest, 8)
    assert narrower.value.fix == "ask for at most 8 or omit it"
