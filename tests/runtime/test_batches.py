"""The callable for data engines: the local encoder's vectors, from every form of an image, opened where it is used."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nonneg_client import Encoder
from nonneg_core.errors import DataInvalid, FingerprintMismatch, ParameterInvalid
from nonneg_runtime.batches import Embed

MODEL = "photo-fast"


@pytest.fixture(scope="module")
def some(photos: Path) -> list[Path]:
    return sorted(photos.glob("**/*.jpg"))[:3]


@pytest.fixture(scope="module")
def embed() -> Embed:
    return Embed(MODEL, keep=20, threads=1)


def dense(found: dict[str, Any], row: int) -> np.ndarray[Any, Any]:
    vector = np.zeros(2048, np.float32)
    vector[found["indices"][row]] = found["values"][row]
    return vector


def test_the_vectors_are_those_of_the_local_encoder(embed: Embed, some: list[Path]) -> None:
    found = embed({"id": ["a", "b", "c"], "image": some})
    with Encoder(MODEL) as encoder:
        expected = encoder.embed(some, top_k=20).numpy()
    for row in range(3):
        np.testing.assert_allclose(dense(found, row), expected[row], atol=2e-5)
    assert found["id"] == ["a", "b", "c"]
    assert found["failure"] == [""] * 3


def test_every_form_of_an_image_gives_the_same_vector(embed: Embed, some: list[Path]) -> None:
    path = some[0]
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    png = path.read_bytes()
    given = [path, str(path), png, bytearray(png), {"bytes": png, "path": None}, {"bytes": None, "path": str(path)}]
    found = embed({"image": given})
    assert all(found["indices"][row] == found["indices"][0] for row in range(len(given)))
    pixels = embed({"image": [picture, np.asarray(picture)]})
    assert pixels["indices"][0] == pixels["indices"][1]
    assert float(dense(pixels, 0) @ dense(found, 0)) > 0.9  # a JPEG's pixels are seen at less than its full size


def test_an_image_that_fails_says_why_and_costs_nothing_else(embed: Embed, some: list[Path], tmp_path: Path) -> None:
    found = embed({"image": [b"junk", some[0], tmp_path / "gone.jpg", 7, np.zeros((2, 2, 9), np.uint8)]})
    reasons = found["failure"]
    assert reasons[1] == ""
    assert found["indices"][1]
    for row in (0, 2, 3, 4):
        assert reasons[row]
        assert found["indices"][row] == []
        assert found["values"][row] == []
    assert "gone.jpg" in reasons[2]


def test_an_empty_batch_is_answered_with_empty_columns(embed: Embed) -> None:
    assert embed({"image": []}) == {"image": [], "indices": [], "values": [], "failure": []}


def test_a_column_that_is_not_there_is_named_with_those_that_are(embed: Embed) -> None:
    with pytest.raises(DataInvalid, match=r"no column 'image'.*'id', 'jpg'"):
        embed({"id": [], "jpg": []})


def test_wrong_parameters_are_refused(some: list[Path]) -> None:
    with pytest.raises(ParameterInvalid, match="top_k"):
        Embed(keep=0)
    with pytest.raises(ParameterInvalid, match="dimensions=4096"):
        Embed(MODEL, dimensions=4096)({"image": some})
    with pytest.raises(FingerprintMismatch, match="same version"):
        Embed(MODEL, fingerprint="another")({"image": some})


def test_what_is_pickled_is_small_and_holds_no_session(embed: Embed, some: list[Path]) -> None:
    embed({"image": some[:1]})
    pickled = pickle.dumps(embed)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert again({"image": some[:1]})["indices"] == embed({"image": some[:1]})["indices"]


def test_nothing_of_the_runtime_is_imported_where_the_callable_is_only_made() -> None:
    code = "import sys; from nonneg_runtime.batches import Embed; Embed(keep=5); print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_hugging_face_datasets_map_it_over_their_images(embed: Embed, some: list[Path]) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    rows = datasets.Dataset.from_dict({"image": [{"bytes": path.read_bytes(), "path": None} for path in some]})
    mapped = rows.map(embed, batched=True, batch_size=2, remove_columns=["image"])
    expected = embed({"image": some})["indices"]
    assert [row["indices"] for row in mapped] == expected


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, about its own settings
def test_ray_data_maps_it_in_actors(embed: Embed, some: list[Path]) -> None:
    ray = pytest.importorskip("ray", reason="the package ray is not installed")
    data = pytest.importorskip("ray.data", reason="ray is installed without its data part")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        rows = data.from_items([{"image": path.read_bytes()} for path in some])
        options = {"fn_constructor_args": (MODEL,), "fn_constructor_kwargs": {"keep": 20, "threads": 1}}
        mapped = rows.map_batches(
            Embed, batch_size=2, compute=data.ActorPoolStrategy(size=1), num_cpus=0.5, **options
        ).take_all()
    finally:
        ray.shutdown()
    expected = embed({"image": some})["indices"]
    assert sorted(list(row["indices"]) for row in mapped) == sorted(expected)
