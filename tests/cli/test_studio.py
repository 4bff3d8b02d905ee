"""`nonneg studio`: which index belongs to which photos, and which model to an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from nonneg_cli.studio import index_of, studio, update_index
from nonneg_core.errors import ConfigInvalid, DataInvalid, FingerprintMismatch
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.words.column_facts import shipped_model
from nonneg_server.studio.folder import groups_of, id_of
from nonneg_vectors.curation.collection import read_collection
from nonneg_vectors.search.index import Index
from nonneg_vectors.storage.embeddings import Embeddings

pytest.importorskip("faiss")


def model_of(collection, given=None):
    return shipped_model(collection.vectors.model, collection.vectors.fingerprint, given)


def photo(path: Path, seed: int) -> None:
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8))
    small.resize((120, 90), Image.Resampling.BICUBIC).save(path)


@with_config(ConfigDict(extra="forbid"))
class GroupedPhoto(TypedDict):
    photo: str
    name: str
    of: str | None
    action: Literal["keep", "remove", "review", "choose", ""]
    why: str
    cosine: float | None


@with_config(ConfigDict(extra="forbid"))
class PhotoGroup(TypedDict):
    title: str
    photos: int
    unlisted: int
    findings: list[GroupedPhoto]


@with_config(ConfigDict(extra="forbid"))
class Section(TypedDict):
    """What the page reads of one part of curation."""

    part: str
    title: str
    how: str
    groups: list[PhotoGroup]
    notes: list[str]
    rows: list[dict[str, Any]]


def test_what_is_new_is_embedded_and_what_is_gone_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(3):
        photo(folder / f"{i}.png", i)
    index = index_of((str(folder),), "photo-fast")
    assert index.is_relative_to(tmp_path / "cache")
    assert index == index_of((f"{folder}/",), "photo-fast")
    assert index != index_of((str(folder),), None)
    update_index((str(folder),), index, "photo-fast", quiet=True)
    assert read_collection(index).ids == ("0.png", "1.png", "2.png")
    (folder / "1.png").unlink()
    photo(folder / "3.png", 3)
    update_index((str(folder),), index, "photo-fast", quiet=True)
    collection = read_collection(index)
    assert collection.ids == ("0.png", "2.png", "3.png")
    assert collection.root == str(folder)
    assert model_of(collection) == "photo-fast"
    steps: list[tuple[int, int | None]] = []
    sections = groups_of(collection, {}, lambda done, of: steps.append((done, of)))
    assert steps[-1] == (3, 3)
    assert {"exact", "clusters"} <= {section["part"] for section in sections}
    ids = {id_of(name) for name in collection.ids}
    assert all(finding["photo"] in ids for s in sections for g in s["groups"] for finding in g["findings"])
    monkeypatch.setattr("nonneg_server.studio.folder.SHOWN", 2)
    sections = groups_of(collection, {}, lambda *_: None)
    TypeAdapter(list[Section]).validate_python(sections)
    groups = [group for section in sections for group in section["groups"]]
    assert (3, 1) in [(group["photos"], group["unlisted"]) for group in groups]
    assert all(len(group["findings"]) + group["unlisted"] == group["photos"] for group in groups)


def test_a_photo_that_cannot_be_read_is_not_tried_again_until_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, index = tmp_path / "photos", tmp_path / "photos.index"
    folder.mkdir()
    photo(folder / "a.png", 1)
    (folder / "broken.png").write_text("no photo")
    told = []
    for content in (None, None, "no photo yet"):
        if content is not None:
            (folder / "broken.png").write_text(content)
        update_index((str(folder),), index, "photo-fast", quiet=True)
        told.append("failed broken.png" in capsys.readouterr().err)
    assert told == [True, False, True]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "photos.example"])
def test_on_other_than_loopback_photos_are_not_shown_without_a_key(tmp_path: Path, host: str) -> None:
    refused = CliRunner().invoke(studio, [str(tmp_path), "--host", host])
    assert isinstance(refused.exception, ConfigInvalid)
    assert host in str(refused.exception)
    assert "NONNEG_API_KEY_FILE" in str(refused.exception.fix)


@pytest.mark.parametrize(
    ("flags", "settings"),
    [(["--host", "0.0.0.0", "--without-key"], {}), (["--host", "0.0.0.0"], {"NONNEG_API_KEY": "k" * 20}), ([], {})],
)
def test_with_a_key_or_on_loopback_or_where_that_is_wanted_it_goes_on(
    tmp_path: Path, flags: list[str], settings: dict[str, str]
) -> None:
    settings = {**settings, "XDG_CACHE_HOME": str(tmp_path)}
    went_on = CliRunner().invoke(studio, [str(tmp_path / "none"), *flags, "--port", "0"], env=settings)
    assert "no photo could be read" in str(went_on.exception)


def test_a_folder_without_a_photo_that_can_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("no photo")
    with pytest.raises(DataInvalid, match="no photo could be read"):
        update_index((str(tmp_path / "photos"),), tmp_path / "photos.index", "photo-fast", quiet=True)


def test_an_index_is_opened_with_the_model_it_was_made_with_or_not_at_all(tmp_path: Path) -> None:
    held = open_bundle("photo").manifest
    for fingerprint, place in ((held.fingerprint, tmp_path / "ours"), ("0" * 32, tmp_path / "foreign")):
        rows = Embeddings.from_dense(np.eye(2, held.dimensions, dtype=np.float32), fingerprint=fingerprint)
        with Index.open(place, like=rows) as index:
            index.add(rows.named(["a.jpg", "b.jpg"]))
    assert index_of((str(tmp_path / "ours"),), None) == tmp_path / "ours"
    assert model_of(read_collection(tmp_path / "ours")) == "photo"
    with pytest.raises(FingerprintMismatch, match="not of photo-fast"):
        model_of(read_collection(tmp_path / "ours"), "photo-fast")
    with pytest.raises(FingerprintMismatch, match="does not come with nonneg"):
        model_of(read_collection(tmp_path / "foreign"))
