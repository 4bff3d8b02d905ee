"""A bundle in this process instead of a server: the same calls, the same vectors, the same numbers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_cli.table import nonneg
from nonneg_client import Client, evaluate
from nonneg_client.embedder import local
from nonneg_core.errors import DataInvalid, ImageUnreadable, ImageUnsupported, ModelNotFound, ParameterInvalid
from nonneg_core.terminal.installing import extra_hint


@pytest.fixture(scope="module")
def encoder():
    with local() as opened:
        yield opened


@pytest.fixture
def here(monkeypatch):
    """The command without any server that it could reach."""
    monkeypatch.setenv("NONNEG_URL", "http://127.0.0.1:9")

    def invoke(*arguments: object):
        return CliRunner().invoke(nonneg, [str(a) for a in arguments])

    return invoke


def test_the_vectors_are_the_servers(client: Client, encoder, photos):
    for asked in ({}, {"dimensions": 100, "top_k": 9}, {"normalize": False}):
        here, there = encoder.embed(photos, **asked), client.embed(photos, **asked)
        assert (here.ids, here.fingerprint, here.model) == (there.ids, there.fingerprint, there.model)
        assert here.normalized == there.normalized
        np.testing.assert_array_equal(here.numpy(), there.numpy())


def test_pictures_in_memory_are_taken_as_they_are(client: Client, encoder):
    rng = np.random.default_rng(0)
    array = rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    pictures = [array, Image.fromarray(array), Image.fromarray(array[:, :, 0])]
    np.testing.assert_array_equal(encoder.embed(pictures).numpy(), client.embed(pictures).numpy())
    downscaled = encoder.embed(pictures, downscale=32).numpy()
    np.testing.assert_array_equal(downscaled, client.embed(pictures, downscale=32).numpy())


def test_pictures_of_every_kind_mean_the_same_in_memory_and_over_the_wire(client: Client, encoder, photos):
    photo = Image.open(photos / "cat" / "cat-0.jpg").convert("RGB")
    turned, camera = io.BytesIO(), Image.Exif()
    camera[0x0112] = 6  # orientation
    photo.save(turned, "JPEG", exif=camera)
    modes = ["L", "LA", "RGBA", "P", "1", "CMYK", "YCbCr", "HSV", "I"]
    pictures = [Image.open(turned), *(photo.convert(mode) for mode in modes)]
    np.testing.assert_allclose(encoder.embed(pictures).numpy(), client.embed(pictures).numpy(), atol=1e-6)
    as_file, as_picture = encoder.embed([turned.getvalue(), Image.open(turned)])
    np.testing.assert_allclose(as_picture[1], as_file[1], atol=1e-6)
    for embedder in (client, encoder):
        with pytest.raises(ImageUnsupported):
            embedder.embed([photo.convert("F")])


def test_failed_images_are_returned_or_raised(encoder, photos):
    whole = (photos / "cat" / "cat-0.jpg").read_bytes()
    found = encoder.embed([whole, whole[:900], "nowhere.jpg", whole], on_error="return")
    assert found.ids == ("0", "3")
    assert [failure.error.type for failure in found.failures] == ["image_unreadable", "data_invalid"]
    with pytest.raises(ImageUnreadable):
        encoder.embed([whole, whole[:900]])


def test_wrong_parameters_are_refused_before_any_image_is_read(encoder, photos):
    with pytest.raises(ParameterInvalid, match="dimensions"):
        encoder.embed(photos, 10_000)
    with pytest.raises(ModelNotFound):
        encoder.embed(photos, model="another")


def test_a_generator_is_read_only_a_little_ahead(encoder, photos):
    whole = (photos / "cat" / "cat-0.jpg").read_bytes()
    taken = []

    def images():
        for i in range(200):
            taken.append(i)
            yield whole if i else b"broken"

    with pytest.raises(Exception, match="0"):
        encoder.embed(images())
    assert len(taken) < 50


def test_evaluation_scores_the_same_through_a_server_and_without(client: Client, encoder, photos):
    there = evaluate(photos, through=client, lengths=[2048, 64], k=5)
    here = evaluate(photos, through=encoder, lengths=[2048, 64], k=5)
    assert [row.record() for row in here] == [row.record() for row in there]
    assert here[0].report.means()["P@1"] > 0.9


def test_evaluation_takes_images_or_vectors_and_labels_in_order_or_by_id(encoder, photos):
    files = sorted(photos.rglob("*.jpg"))
    names = [file.parent.name for file in files]
    z = encoder.embed(files)
    ask = np.arange(len(files)) % 5 == 0
    gallery = [f for f, a in zip(files, ask, strict=True) if not a]
    queries = [f for f, a in zip(files, ask, strict=True) if a]
    labels = [f.parent.name for f in [*gallery, *queries]]
    by_id = dict(zip(map(str, files), names, strict=True))
    expected = evaluate(z[~ask], z[ask], labels, lengths=[128])[0].record()
    assert evaluate(gallery, queries, by_id, through=encoder, lengths=[128])[0].record() == expected
    assert evaluate(gallery, z[ask], labels, through=encoder, lengths=[128])[0].record() == expected
    assert evaluate(z, labels=names, lengths=[128])[0].record() == evaluate(z, None, by_id, lengths=[128])[0].record()


def test_a_split_in_a_csv_file_says_what_asks(encoder, photos, tmp_path):
    files = sorted(photos.rglob("*.jpg"))
    rows = [f"{f},{f.parent.name},{'query' if i % 5 == 0 else 'gallery'}" for i, f in enumerate(files)]
    (tmp_path / "data.csv").write_text("\n".join(["path,label,split", *rows]))
    (row,) = evaluate(tmp_path / "data.csv", through=encoder, lengths=[256])
    assert len(row.report.queries) == 7


def test_what_is_missing_for_an_evaluation_is_said(encoder, photos):
    z = encoder.embed(photos)
    with pytest.raises(DataInvalid, match="no labels"):
        evaluate(z)
    with pytest.raises(DataInvalid, match="34 labels for 35"):
        evaluate(z, labels=["a"] * 34)
    with pytest.raises(DataInvalid, match="has no label"):
        evaluate(z, labels={"a": "b"})
    with pytest.raises(Exception, match="no vectors yet"):
        evaluate(photos)


@pytest.mark.slow
def test_commands_work_without_a_server(here, client: Client, photos, tmp_path):
    result = here("embed", photos, "-o", tmp_path / "a.npz", "--bundle", "default")
    assert result.exit_code == 0, result.output
    assert "35 vectors" in result.stdout
    result = here("index", photos, "-o", tmp_path / "a.index", "--bundle", "default", "--dimensions", 256)
    assert result.exit_code == 0, result.output
    query = photos / "cat" / "cat-0.jpg"
    result = here("search", tmp_path / "a.index", query, "--bundle", "default", "--json")
    assert json.loads(result.stdout)["hits"][0]["id"] == "cat/cat-0.jpg"
    result = here("evaluate", photos, "--bundle", "default", "--lengths", "2048,64", "--json")
    locally = json.loads(result.stdout)["rows"]
    result = here("evaluate", photos, "--url", client.settings.url, "--lengths", "2048,64", "--json")
    assert json.loads(result.stdout)["rows"] == locally
    result = here("compare", photos, "default@64", tmp_path / "a.npz", "--json")
    metrics = json.loads(result.stdout)["metrics"]
    assert (metrics["P@1"]["a"], metrics["P@1"]["b"]) == (locally[1]["P@1"], locally[0]["P@1"])
    result = here("compare", photos, "64", "2048", "--bundle", "default", "--json")
    assert json.loads(result.stdout)["metrics"] == metrics


def test_without_the_local_extra_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from nonneg_client.embedder import local\n"
        "from nonneg_core.errors import MissingExtra\n"
        "try: local()\n"
        "except MissingExtra as error: print(error.fix)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == extra_hint("local"), found.stderr


def test_the_encoder_needs_no_part_of_the_server(photos: Path) -> None:
    code = (
        "import sys\n"
        "absent = 'fastapi starlette uvicorn orjson pydantic_settings nonneg_server onnx torch'\n"
        "sys.modules.update(dict.fromkeys(absent.split()))\n"
        "from nonneg_client import Encoder\n"
        "with Encoder() as encoder: print(len(encoder.embed(sys.argv[1])), encoder.embed(texts='taxi').dimensions)\n"
    )
    photo = next(iter(sorted(photos.rglob("*.jpg"))))
    found = subprocess.run([sys.executable, "-c", code, str(photo)], capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == ["1", "2048"], found.stderr
