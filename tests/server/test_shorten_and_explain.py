from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_client.local import Encoder
from nonneg_core.shortening import shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio
Paint = Callable[[int], bytes]
JSON = {"content-type": "application/json"}


def stored(rows: int = 4, width: int = 48) -> np.ndarray:
    z = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32) - 0.5
    return shorten(np.maximum(z, 0))


def sparse(z: np.ndarray) -> list[dict[str, Any]]:
    return [{"indices": np.flatnonzero(row).tolist(), "values": row[row > 0].tolist()} for row in z]


@pytest.mark.parametrize("wanted", [{}, {"dimensions": 10}, {"top_k": 3}, {"dimensions": 30, "top_k": 5}])
async def test_stored_vectors_are_shortened_by_the_clients_rule(
    client: httpx.AsyncClient, bundle: Bundle, wanted: dict[str, Any]
) -> None:
    z = stored()
    buffer = io.BytesIO()
    np.save(buffer, z)
    dense = await client.post("/shorten", json={"vectors": z.tolist(), "format": "dense", **wanted})
    thin = await client.post(
        "/shorten",
        json={"vectors": sparse(z), "format": "dense", "fingerprint": bundle.manifest.fingerprint, **wanted},
    )
    npy = await client.post(
        "/shorten", params=wanted, content=buffer.getvalue(), headers={"content-type": "application/x-npy",
                                                                       "accept": "application/x-npy"}
    )  # fmt: skip
    reference = shorten(z, **wanted)
    for answer in (dense, thin):
        np.testing.assert_allclose(
            np.float32([item["embedding"] for item in answer.json()["data"]]), reference, rtol=1e-6
        )
    np.testing.assert_array_equal(np.load(io.BytesIO(npy.content)), reference)


async def test_shortening_an_answer_equals_asking_for_the_length(client: httpx.AsyncClient, png: Paint) -> None:
    image = {"content": png(0), "headers": {"content-type": "image/png"}}
    whole = (await client.post("/embed", **image)).json()["data"][0]  # type: ignore[arg-type]
    asked = (await client.post("/embed?dimensions=12", **image)).json()["data"][0]  # type: ignore[arg-type]
    body = {"vectors": [{"indices": whole["indices"], "values": whole["values"]}], "dimensions": 12}
    found = (await client.post("/shorten", json=body)).json()["data"][0]
    assert found["indices"] == asked["indices"]
    np.testing.assert_allclose(found["values"], asked["values"], rtol=1e-6)


async def test_vectors_that_are_already_short_keep_their_width(client: httpx.AsyncClient) -> None:
    z = stored(width=20)
    answer = await client.post("/shorten", json={"vectors": sparse(z), "width": 20})
    assert answer.json()["dimensions"] == 20
    beyond = await client.post("/shorten", json={"vectors": z.tolist(), "dimensions": 21})
    assert (beyond.status_code, beyond.json()["error"]["limit"]) == (422, 20)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "vectors"),
        ({"vectors": []}, "vectors"),
        ({"vectors": [[]]}, "vectors"),
        ({"vectors": 3}, "vectors"),
        ({"vectors": [["a"]]}, "vectors"),
        ({"vectors": [[1, 2], [3]]}, "vectors"),
        ({"vectors": [[-1.0, 2.0]]}, "vectors"),
        ({"vectors": [[1e300]]}, "vectors"),
        ({"vectors": [[True]]}, "vectors"),
        ({"vectors": [[0.1] * 49]}, "vectors"),
        ({"vectors": [{"indices": [1]}]}, "vectors"),
        ({"vectors": [{"indices": [1], "values": [0.1, 0.2]}]}, "vectors"),
        ({"vectors": [{"indices": [3, 2], "values": [0.1, 0.2]}]}, "vectors[0].indices"),
        ({"vectors": [{"indices": [48], "values": [0.1]}]}, "vectors[0].indices"),
        ({"vectors": [{"indices": [0.5], "values": [0.1]}]}, "vectors"),
        ({"vectors": [[1.0]], "width": 0}, "width"),
        ({"vectors": [[1.0]], "fingerprint": 3}, "fingerprint"),
        ({"vectors": [[1.0]], "colour": 3}, "colour"),
    ],
)
async def test_what_are_no_vectors_of_this_model_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await client.post("/shorten", json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert answer.json()["error"]["fix"]


async def test_vectors_of_another_model_are_a_conflict(client: httpx.AsyncClient) -> None:
    answer = await client.post("/shorten", json={"vectors": [[1.0]], "fingerprint": "other"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "fingerprint_mismatch")


async def test_a_broken_npy_and_a_pickle_are_bad_requests(client: httpx.AsyncClient) -> None:
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for content in (b"", b"\x93NUMPY\1\0", pickled.getvalue()):
        answer = await client.post("/shorten", content=content, headers={"content-type": "application/x-npy"})
        assert answer.status_code == 400
    assert (await client.post("/shorten", content=b"x", headers={"content-type": "text/csv"})).status_code == 415


@pytest.mark.parametrize("shape", [(), (4,), (0, 4), (1, 2, 2)])
async def test_an_npy_of_another_shape_than_rows_is_refused(client: httpx.AsyncClient, shape: tuple[int, ...]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(shape, np.float32))
    answer = await client.post("/shorten", content=buffer.getvalue(), headers={"content-type": "application/x-npy"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "parameter_invalid")


async def test_the_contributions_sum_to_the_cosine(client: httpx.AsyncClient, png: Paint, bundle: Bundle) -> None:
    images = [base64.b64encode(png(i)).decode() for i in (0, 1)]
    answer = (await client.post("/explain", json={"images": images, "limit": 4})).json()
    with Encoder(bundle) as encoder:
        a, b = encoder.embed([png(0), png(1)]).numpy()
    assert answer["cosine"] == pytest.approx(float(a @ b), abs=1e-6)
    listed = answer["contributions"]
    assert len(listed) == 4
    assert sum(item["contribution"] for item in listed) + answer["rest"] == pytest.approx(answer["cosine"])
    assert [item["contribution"] for item in listed] == sorted((i["contribution"] for i in listed), reverse=True)
    for item in listed:
        j = item["dimension"]
        assert item["values"] == pytest.approx([a[j], b[j]])
        assert (await client.get(item["details"])).json()["dimension"] == j


async def test_explaining_at_a_length_uses_that_length(client: httpx.AsyncClient, png: Paint, bundle: Bundle) -> None:
    files = [("images", ("a.png", png(0))), ("images", ("b.png", png(1)))]
    answer = (await client.post("/explain?dimensions=20&top_k=6", files=files)).json()
    with Encoder(bundle) as encoder:
        a, b = encoder.embed([png(0), png(1)], 20, 6).numpy()
    assert answer["dimensions"] == 20
    assert answer["cosine"] == pytest.approx(float(a @ b), abs=1e-6)
    assert answer["rest"] == pytest.approx(0, abs=1e-9)


async def test_two_images_without_anything_in_common_have_no_contributions(
    client: httpx.AsyncClient, png: Paint
) -> None:
    images = [base64.b64encode(png(i)).decode() for i in range(2)]
    body = {"images": images, "dimensions": 1, "top_k": 1}
    answers = [(await client.post("/explain", json=body)).json()]
    assert all(len(a["contributions"]) == a["shared"] for a in answers)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_explain_takes_two_images(client: httpx.AsyncClient, png: Paint, count: int) -> None:
    answer = await client.post("/explain", json={"images": [base64.b64encode(png(0)).decode()] * count})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "images")


@pytest.mark.parametrize("extra", [{"limit": 0}, {"limit": "3"}, {"format": "dense"}, {"dimensions": [3]}])
async def test_explain_refuses_what_it_does_not_know(
    client: httpx.AsyncClient, png: Paint, extra: dict[str, Any]
) -> None:
    images = [base64.b64encode(png(0)).decode()] * 2
    answer = await client.post("/explain", json={"images": images, **extra})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, next(iter(extra)))


async def test_a_model_tells_its_manifest_and_a_dimension_its_statistics(
    client: httpx.AsyncClient, bundle: Bundle
) -> None:
    model = (await client.get("/models/tiny")).json()
    assert model["fingerprint"] == bundle.manifest.fingerprint
    assert model["provenance"]["weights"] == "random"
    assert model["lengths"] == []
    found = (await client.get("/models/tiny/dimensions/3")).json()
    assert found["frequency"] == bundle.manifest.columns.frequency[3]
    assert found["name"] is None
    assert [example["label"] for example in found["examples"]] == ["tomato"]
    picture = await client.get(found["examples"][0]["image"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (8, 8)
    named = (await client.get("/models/tiny/dimensions/0")).json()
    assert (named["name"], len(named["examples"])) == ("red things", 2)
    absent = ["other", *(f"tiny/dimensions/{rest}" for rest in ("48", "-1", "x", "99999999999"))]
    absent += [f"tiny/dimensions/{rest}" for rest in ("3/examples/1", "5/examples/0", "48/examples/0", "0/examples/x")]
    for path in absent:
        assert (await client.get(f"/models/{path}")).status_code == 404, path


async def test_an_explanation_names_dimensions_and_shows_examples(client: httpx.AsyncClient, png: Paint) -> None:
    images = [base64.b64encode(png(0)).decode()] * 2
    answer = (await client.post("/explain", json={"images": images, "limit": 48})).json()
    for item in answer["contributions"]:
        assert len(item["examples"]) == {0: 2, 3: 1}.get(item["dimension"], 0)
        assert item["name"] == {0: "red things", 5: "tabby", 7: "ox", 9: "cab"}.get(item["dimension"])
        assert (item["evidence"] is None) == (item["name"] is None)
    assert answer["cosine"] == pytest.approx(1)


async def test_an_explanation_is_of_the_model_that_made_its_vectors(
    make_bundle: Callable[..., Bundle], tmp_path: Path, png: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    engines = [InferenceEngine(make_bundle(folder, seed=seed), threads=1) for seed, folder in enumerate(folders)]
    registry, encode_all = Registry(engines[0]), engines[0].encode_all

    async def encode_and_be_replaced(*given: Any, **options: Any) -> Any:
        registry.put(engines[1])
        return await encode_all(*given, **options)

    monkeypatch.setattr(engines[0], "encode_all", encode_and_be_replaced)
    transport = httpx.ASGITransport(create_app(registry, Settings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/explain", files=[("images", png(0)), ("images", png(1))])
    assert registry.get("tiny") is engines[1]
    assert answer.json()["fingerprint"] == answer.headers["x-fingerprint"] == engines[0].bundle.manifest.fingerprint
    for engine in engines:
        engine.close()
