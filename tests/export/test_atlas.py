from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto
from PIL import Image as Picture

from nonneg_core.errors import BundleInvalid, ConfigInvalid, DigestMismatch, ParameterInvalid, StorageFailed
from nonneg_core.pixels.view import View
from nonneg_core.shortening import unit
from nonneg_export.assembly.calibrate_and_seal import Draft, rank, seal
from nonneg_export.calibrate.atlas_builder import strongest
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.commands.atlas import atlas as command
from nonneg_runtime.bundle.atlas_file import Atlas, fingerprint_of, open_atlas, with_atlas
from nonneg_runtime.bundle.bundle_folder import DEFAULT, Bundle, open_bundle
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.words.column_facts import known_names

SOURCE = Provenance(weights="random", weights_license="CC0", data="none", data_license="CC0")


@pytest.fixture(scope="module")
def plain(tiny: ModelProto, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("plain")
    draft = Draft(model=tiny, view=View(size=16), name="tiny", version="1", activation="relu", provenance=SOURCE)
    return seal(rank(draft, find_photos(labelled), folder), folder / "bundle")


def make(bundle: Path, photos: Path, *options: str) -> str:
    result = CliRunner().invoke(command, [str(bundle), "--images", str(photos), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture(scope="module")
def charted(plain: Bundle, held_out: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("charted") / "bundle"
    make(plain.path, held_out, "--out", str(out), "--examples", "5")
    return open_bundle(out)


def test_the_strongest_images_are_what_a_sort_finds(charted: Bundle, held_out: Path) -> None:
    paths = sorted(held_out.rglob("*.jpg"))
    session, view = Session(charted.encoder), charted.manifest.view
    rows = unit(np.concatenate([session.run(load_pixels(p, view)[0][None]) for p in paths]))
    atlas = open_atlas(charted)
    assert atlas is not None
    with atlas:
        for j in range(24):
            order = sorted((i for i in range(60) if rows[i, j] > 0), key=lambda i: (-rows[i, j], i))[:5]
            found = atlas.examples(j)
            assert [e.image.path for e in found] == [paths[i].relative_to(held_out).as_posix() for i in order]
            assert [e.activation for e in found] == pytest.approx([float(rows[i, j]) for i in order], abs=1e-5)


def test_a_dimension_is_named_after_the_class_of_most_of_its_examples(charted: Bundle) -> None:
    with Atlas(charted.path / "atlas.sqlite") as atlas:
        for dimension in atlas.dimensions():
            labels = [example.image.label for example in atlas.examples(dimension.id)]
            if not labels:
                assert dimension.name == ""
                continue
            most = max(labels.count(label) for label in labels) / len(labels)
            assert dimension.share == pytest.approx(most)
            assert bool(dimension.name) == (most >= 0.5)  # three times the share that each of the six classes has
            assert atlas.dimension(dimension.id) == dimension


def test_thumbnails_are_small_jpegs_without_metadata(charted: Bundle) -> None:
    with Atlas(charted.path / "atlas.sqlite") as atlas:
        (first, *_) = atlas.examples(0)
    with Picture.open(io.BytesIO(first.image.jpeg)) as picture:
        assert picture.format == "JPEG"
        assert max(picture.size) <= 96
        assert not picture.getexif()


def test_an_atlas_changes_neither_vectors_nor_fingerprint(charted: Bundle, plain: Bundle) -> None:
    assert charted.manifest.fingerprint == plain.manifest.fingerprint
    assert charted.manifest.digest != plain.manifest.digest
    assert charted.manifest.atlas is not None
    assert (charted.manifest.atlas.searched, charted.manifest.atlas.examples) == (60, 5)


def test_it_is_put_into_the_bundle_itself_and_can_be_made_again(plain: Bundle, held_out: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(plain.path, tmp_path / "bundle"))
    for _ in range(2):
        assert "60 images searched" in make(bundle, held_out)
    assert set(open_bundle(bundle).manifest.files) == {"encoder.onnx", "atlas.sqlite"}
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_class_that_most_photos_belong_to_names_nothing(plain: Bundle, held_out: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("coffee", "rocket"):
        shutil.copytree(held_out / name, photos / name)
    (photos / "rocket" / "00.jpg").rename(photos / "coffee" / "10.jpg")
    make(plain.path, photos, "--out", str(tmp_path / "b"))
    with Atlas(tmp_path / "b" / "atlas.sqlite") as atlas:
        assert {dimension.name for dimension in atlas.dimensions()} == {""}


def test_a_file_beside_a_bundle_leaves_it_as_it_is_and_says_whose_it_is(
    plain: Bundle, held_out: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in plain.path.iterdir()}
    make(plain.path, held_out, "--file", str(tmp_path / "mine.atlas"))
    assert {path.name: path.read_bytes() for path in plain.path.iterdir()} == before
    assert fingerprint_of(tmp_path / "mine.atlas") == plain.manifest.fingerprint
    shown = with_atlas(plain, [tmp_path / "mine.atlas"])
    atlas = open_atlas(shown)
    assert atlas is not None
    with atlas:
        assert atlas.examples(0)
    assert {name.source for name in known_names(shown).values()} == {"atlas"}
    assert known_names(plain) == {}
    other = replace(plain, manifest=plain.manifest.model_copy(update={"fingerprint": "0" * 32}))
    assert with_atlas(other, [tmp_path / "mine.atlas"]) == other


def test_a_shipped_model_is_left_as_it_is(held_out: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="stays as it is") as refused:
        CliRunner().invoke(command, ["photo", "--images", str(held_out)], catch_exceptions=False)
    assert "--html" in str(refused.value.fix)
    make(Path("photo"), held_out / "coffee", "--limit", "2", "--html", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "tench" in page
    assert open_bundle(DEFAULT).manifest.atlas is None


def test_a_page_holds_every_dimension_and_nothing_that_a_path_could_smuggle_in(
    plain: Bundle, real_photos: list[Picture.Image], tmp_path: Path
) -> None:
    folder = tmp_path / "photos" / "<img src=x onerror=alert(1)>"
    folder.mkdir(parents=True)
    for i, photo in enumerate(real_photos):
        photo.save(folder / f"{i}.png")
    make(plain.path, tmp_path / "photos", "--html", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    held = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[0])
    assert len(held["dimensions"]) == 24
    assert len(held["pictures"]) == 6
    assert "<img src=x" not in page
    assert not re.search(r"""(src|href)=["']?https?:""", page)
    with pytest.raises(StorageFailed, match="pass --replace"):
        make(plain.path, tmp_path / "photos", "--html", str(tmp_path / "a.html"))


def test_an_atlas_of_before_is_read_and_belongs_to_no_model(charted: Bundle, tmp_path: Path) -> None:
    path = Path(shutil.copy(charted.path / "atlas.sqlite", tmp_path / "atlas.sqlite"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE model")
        db.execute("PRAGMA user_version = 1")
    with Atlas(path) as atlas:
        assert atlas.examples(0)
    with pytest.raises(BundleInvalid, match="which model"):
        fingerprint_of(path)


def test_images_without_classes_give_no_names(plain: Bundle, held_out: Path, tmp_path: Path) -> None:
    make(plain.path, held_out / "coffee", "--out", str(tmp_path / "b"))
    with Atlas(tmp_path / "b" / "atlas.sqlite") as atlas:
        assert {dimension.name for dimension in atlas.dimensions()} == {""}


def test_the_budget_is_kept_and_every_dimension_has_its_strongest_first(
    plain: Bundle, real_photos: list[Picture.Image], tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    for i in range(30):  # noise: hard to compress, 60 kB each at 512 pixels
        Picture.fromarray(rng.integers(0, 256, (512, 512, 3), dtype=np.uint8)).save(photos / f"{i:02}.png")
    make(plain.path, photos, "--out", str(tmp_path / "b"), "--max-size", "1", "--thumbnail", "512")
    record = open_bundle(tmp_path / "b").manifest
    assert record.files["atlas.sqlite"].bytes < 1.1 * 2**20
    assert record.atlas is not None
    assert 0 < record.atlas.images < 30


def test_a_copy_with_an_atlas_replaces_only_what_it_may(plain: Bundle, held_out: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "copy.bundle")
    make(plain.path, held_out, "--out", out)
    with pytest.raises(StorageFailed, match="pass --replace"):
        make(plain.path, held_out, "--out", out)
    make(plain.path, held_out, "--out", out, "--replace")


def test_a_bundle_without_an_atlas_has_none(plain: Bundle) -> None:
    assert open_atlas(plain) is None


def test_a_dimension_that_is_not_there_is_refused(charted: Bundle) -> None:
    with Atlas(charted.path / "atlas.sqlite") as atlas, pytest.raises(ParameterInvalid, match="dimension 24"):
        atlas.dimension(24)


def test_a_changed_atlas_is_refused_with_its_bundle(charted: Bundle, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(charted.path, tmp_path / "bundle"))
    data = bytearray((bundle / "atlas.sqlite").read_bytes())
    data[-1] ^= 1
    (bundle / "atlas.sqlite").write_bytes(data)
    with pytest.raises(DigestMismatch, match=r"atlas\.sqlite"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    "statement",
    ["CREATE VIEW trap AS SELECT 1", "DROP TABLE example", "PRAGMA user_version = 9", "CREATE TABLE more (x)"],
)
def test_a_database_with_other_contents_is_not_an_atlas(statement: str, charted: Bundle, tmp_path: Path) -> None:
    path = Path(shutil.copy(charted.path / "atlas.sqlite", tmp_path / "atlas.sqlite"))
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    with pytest.raises(BundleInvalid, match="is not an atlas"):
        Atlas(path)


@pytest.mark.parametrize("content", [b"", b"no database, only text " * 100])
def test_a_file_that_is_not_a_database_is_not_an_atlas(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "atlas.sqlite").write_bytes(content)
    with pytest.raises(BundleInvalid, match="is not an atlas"):
        Atlas(tmp_path / "atlas.sqlite")


def test_reading_an_atlas_needs_neither_torch_nor_onnx(charted: Bundle) -> None:
    program = (
        "import sys; from pathlib import Path; from nonneg_runtime.bundle.atlas_file import Atlas; "
        f"assert Atlas(Path({str(charted.path / 'atlas.sqlite')!r})).examples(0); "
        "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


def test_strongest_works_in_pieces() -> None:
    rows = np.maximum(np.random.default_rng(0).normal(size=(50, 7)), 0).astype(np.float32)
    whole = strongest(rows, 4)
    pieces = strongest(rows, 4, at_once=9)
    np.testing.assert_array_equal(pieces.images, whole.images)
    np.testing.assert_array_equal(pieces.activations, whole.activations)
