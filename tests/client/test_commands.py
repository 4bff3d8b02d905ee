"""`nonneg embed` and `nonneg evaluate`, as people type them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nonneg_cli.table import main, nonneg
from nonneg_client import Embeddings
from nonneg_core.errors import ParameterInvalid, StorageFailed


@pytest.fixture
def run(server, monkeypatch):
    """The command in this process, with its exit code and both its streams."""
    monkeypatch.setenv("NONNEG_URL", server)

    def invoke(*arguments: object):
        return CliRunner().invoke(nonneg, [str(a) for a in arguments])

    return invoke


@pytest.fixture
def one_broken(photos: Path, tmp_path: Path) -> Path:
    shutil.copytree(photos, tmp_path / "data")
    (tmp_path / "data" / "cat" / "broken.jpg").write_bytes((photos / "cat" / "cat-0.jpg").read_bytes()[:900])
    return tmp_path / "data"


def test_embed_writes_a_file_with_the_clients_own_vectors(run, client, photos, tmp_path):
    result = run("embed", photos, "-o", tmp_path / "photos.npz", "--dimensions", 128)
    assert result.exit_code == 0, result.output
    assert "35 vectors of 128 dimensions" in result.stdout
    expected = client.embed(photos, dimensions=128)
    found = Embeddings.load(tmp_path / "photos.npz")
    assert found.ids == tuple(str(Path(name).relative_to(photos)) for name in expected.ids)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_embed_without_a_file_prints_a_line_of_json_an_image(run, client, photos):
    result = run("embed", photos / "cat" / "*.jpg", "--top-k", 8)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [Path(line["id"]).name for line in lines] == [f"cat-{i}.jpg" for i in range(5)]
    assert all(len(line["indices"]) == 8 for line in lines)


def test_embed_names_a_broken_image_goes_on_and_exits_with_1(run, one_broken, tmp_path):
    result = run("embed", one_broken, "-o", tmp_path / "photos.npz")
    assert result.exit_code == 1
    assert "failed" in result.stderr
    assert "broken.jpg" in result.stderr
    assert len(Embeddings.load(tmp_path / "photos.npz")) == 35


def test_a_file_name_that_says_no_form_is_refused_before_the_work(run, photos, tmp_path):
    result = run("embed", photos, "-o", tmp_path / "photos.txt")
    assert "call it .npz" in str(result.exception)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_shorten_cuts_a_file_as_the_server_would_have(run, client, photos, tmp_path, suffix):
    full, short = tmp_path / "full.npz", tmp_path / f"short{suffix}"
    client.embed(photos).save(full)
    result = run("shorten", full, "-o", short, "--dimensions", 64, "--top-k", 9)
    assert "35 vectors of 64 dimensions" in result.stdout
    expected = client.embed(photos, dimensions=64, top_k=9)
    np.testing.assert_allclose(Embeddings.load(short).numpy(), expected.numpy(), atol=1e-3)
    assert isinstance(run("shorten", full, "-o", short).exception, StorageFailed)
    assert isinstance(run("shorten", full, "-o", short, "--replace", "--dimensions", 9999).exception, ParameterInvalid)


def test_shorten_without_a_length_only_changes_the_form(run, random_embeddings, tmp_path):
    random_embeddings().save(tmp_path / "a.safetensors")
    run("shorten", tmp_path / "a.safetensors", "-o", tmp_path / "b.npz")
    np.testing.assert_array_equal(Embeddings.load(tmp_path / "b.npz").numpy(), random_embeddings().numpy())


def test_evaluate_prints_a_row_a_length(run, photos):
    result = run("evaluate", photos, "--lengths", "512,64,512:16")
    assert result.exit_code == 0, result.output
    first, header, *rows, last = result.stdout.splitlines()
    assert "35 images of 7 labels" in first
    assert header.split()[:4] == ["length", "P@1", "P@10", "R-precision"]
    assert [row.split()[0] for row in rows] == ["512", "64", "512:16"]
    assert float(rows[0].split()[1]) > 0.9  # overlapping crops of one photo find each other
    assert "P@10" in last


def test_evaluate_prints_json_for_programs(run, client, photos):
    result = run("evaluate", photos, "--json", "--k", 4)
    summary = json.loads(result.stdout)
    assert summary["fingerprint"] == client.embed(next(photos.rglob("*.jpg"))).fingerprint
    assert (summary["images"], summary["labels"], summary["queries"]) == (35, 7, 35)
    full = client.models()["models"][0]["dimensions"]
    assert [row["dimensions"] for row in summary["rows"]] == [full, 1024, 512, 256, 128, 64, 32]
    assert {"P@1", "P@10", "mAP@4", "R-precision", "live", "zero", "nnz"} <= set(summary["rows"][0])


def test_evaluate_skips_a_broken_image_by_name(run, one_broken):
    result = run("evaluate", one_broken, "--lengths", 64, "--json")
    assert result.exit_code == 0
    assert "skipped" in result.stderr
    summary = json.loads(result.stdout)
    assert summary["images"] == 35
    assert [Path(skipped["id"]).name for skipped in summary["skipped"]] == ["broken.jpg"]


@pytest.mark.parametrize("arguments", [["--lengths", "a"], ["--lengths", "5:b"], ["--k", "0"]])
def test_evaluate_refuses_options_it_cannot_read(run, photos, arguments):
    assert run("evaluate", photos, *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "holds no images"),
        (lambda folder: (folder / "a.jpg").write_bytes(b""), "lies in no labelled subfolder"),
        (lambda folder: _put(folder / "cat" / "a.jpg"), "one label only"),
        (lambda folder: folder.rmdir(), "No such file"),
    ],
)
def test_a_folder_that_cannot_be_evaluated_is_named(run, tmp_path, make, message):
    folder = tmp_path / "set"
    folder.mkdir()
    make(folder)
    assert message in str(run("evaluate", folder).exception)


def test_an_error_is_two_lines_and_exit_code_1(server, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["nonneg", "evaluate", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    message, fix = capsys.readouterr().err.splitlines()
    assert message.startswith("Error: ")
    assert str(tmp_path) in message
    assert fix.startswith("Fix:   ")


def _put(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
