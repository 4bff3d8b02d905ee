"""What an index holds of its photos' pixels, the same through a server and in this process; used instead of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_cli.table import nonneg
from nonneg_client.search import Index
from nonneg_vectors.curation.photos import attributes, measure


@pytest.fixture(scope="module")
def invoke(server, tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("cache"))

    def run(*arguments: object):
        done = CliRunner().invoke(
            nonneg, list(map(str, arguments)), env={"NONNEG_URL": server, "XDG_CACHE_HOME": cache}
        )
        assert done.exit_code == 0, done.output
        return done

    return run


@pytest.fixture
def folder(folder, tmp_path) -> Path:
    """A few of the photos, one lying on its side, one black, one a copy."""
    place = tmp_path / "photos"
    place.mkdir()
    for name in ("cat/00.png", "cat/00-half.png", "cat/03.png", "dog/black.png"):
        shutil.copy(folder / name, place / Path(name).name)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(folder / "cat" / "05.png").save(place / "turned.jpg", exif=exif)
    return place


def payloads(path: Path) -> dict:
    with Index.open(path) as index:
        return index.engine.payloads()


def test_the_pixels_are_measured_through_a_server_and_in_this_process(invoke, folder, tmp_path):
    invoke("index", folder, "-o", tmp_path / "served.index")
    invoke("index", folder, "-o", tmp_path / "local.index", "--bundle", "default")
    served, local = payloads(tmp_path / "served.index"), payloads(tmp_path / "local.index")
    assert served == local
    for name, payload in served.items():
        expected = attributes(measure((folder / name).read_bytes()))
        assert {field: payload[field] for field in expected} == expected
    assert served["black.png"]["dark"] is True
    assert served["00.png"]["dark"] is False
    assert (served["turned.jpg"]["width"], served["turned.jpg"]["height"]) == (240, 320)


def test_searches_are_narrowed_by_them_and_do_not_show_the_thumbnail(invoke, folder, tmp_path):
    invoke("index", folder, "-o", tmp_path / "x.index")
    found = json.loads(
        invoke("search", tmp_path / "x.index", folder / "00.png", "--where", "dark=true", "--json").stdout
    )
    assert [hit["id"] for hit in found["hits"]] == ["black.png"]
    assert not any(field.startswith("_") for field in found["hits"][0]["payload"])
    wide = invoke("search", tmp_path / "x.index", folder / "00.png", "--where", "width>=300", "--where", "dark!=true")
    assert "00.png" in wide.stdout
    assert "00-half.png" not in wide.stdout
    assert "black.png" not in wide.stdout


def test_copies_are_found_by_the_index_alone_when_the_photos_are_gone(invoke, folder, tmp_path):
    invoke("index", folder, "-o", tmp_path / "x.index")
    shutil.rmtree(folder)
    sections = json.loads(invoke("curate", tmp_path / "x.index", "--only", "copies,pixels", "--json").stdout)[
        "sections"
    ]
    copies = next(section for section in sections if section["part"] == "copies")
    assert [{f["image"] for f in group["findings"]} for group in copies["groups"]] == [{"00.png", "00-half.png"}]
    assert copies["notes"] == []


def test_an_index_that_lacks_them_gets_them_without_embedding_again(invoke, folder, tmp_path):
    invoke("embed", folder, "-o", tmp_path / "x.npz")
    invoke("index", tmp_path / "x.npz", "-o", tmp_path / "x.index")
    assert "width" not in payloads(tmp_path / "x.index")["00.png"]
    told = invoke("index", folder, "-o", tmp_path / "x.index").stdout
    assert "0 new, 0 changed, 5 unchanged" in told
    assert payloads(tmp_path / "x.index")["00-half.png"]["width"] == 160
    assert "5 unchanged" in invoke("index", folder, "-o", tmp_path / "x.index").stdout
    assert payloads(tmp_path / "x.index")["00-half.png"]["width"] == 160
