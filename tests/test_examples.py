"""Every example runs as it stands, on real photos and a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture(scope="module")
def server(start_server) -> str:
    return start_server()


@pytest.fixture
def run(server: str, tmp_path: Path):
    def example(name: str, *arguments: object) -> str:
        command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=250, check=False, cwd=tmp_path,
            env={**os.environ, "NONNEG_URL": server},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return example


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_at_most_forty_lines_and_is_listed(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 40
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text()


def test_a_catalogue_is_searched_with_filters_and_added_to(run, photos: Path, tmp_path: Path) -> None:
    names = sorted(path.relative_to(photos) for path in photos.rglob("*.jpg"))
    lines = [f"{name},{10 + i},{'true' if i % 7 == 0 else 'false'}" for i, name in enumerate(names)]
    (tmp_path / "products.csv").write_text("\n".join(["path,price,sold", *lines[:30]]))
    first = run("search_catalogue.py", photos, "products.csv", photos / "cat" / "cat-0.jpg").splitlines()
    assert len(first) == 5
    assert all("cat/cat-" in line for line in first[:3])
    assert all(float(line.split()[1]) < 30 for line in first)
    (tmp_path / "products.csv").write_text("\n".join(["path,price,sold", *lines]))
    assert len(run("search_catalogue.py", photos, "products.csv", photos / "cat" / "cat-0.jpg").splitlines()) == 5


def test_copies_are_listed_beside_the_larger_one(run, photos: Path, tmp_path: Path) -> None:
    from PIL import Image

    shutil.copytree(photos / "cat", tmp_path / "photos")
    shutil.copytree(photos / "coffee", tmp_path / "photos", dirs_exist_ok=True)
    original = tmp_path / "photos" / "cat-0.jpg"
    Image.open(original).save(tmp_path / "photos" / "again.jpg", quality=88)
    lines = [line.split("\t") for line in run("find_copies.py", "photos", "0.96").splitlines()]
    assert ["photos/again.jpg", "photos/cat-0.jpg"] in [line[:2] for line in lines]
    assert not any("coffee" in one and "cat" in other for one, other, _ in lines)


@pytest.mark.nightly
def test_a_model_is_adapted_and_compared(run, tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = run("adapt_and_compare.py", tiles, "--from", "photo-fast", "--force").splitlines()
    assert sum(" -> " in line for line in lines) == 6
    assert sum(" finds " in line for line in lines) == 4
    assert (tmp_path / "mine.bundle").is_dir()


@pytest.mark.nightly
def test_a_retriever_gives_documents_for_a_sentence_or_a_photo(run, photos: Path, tmp_path: Path, server: str) -> None:
    pytest.importorskip("langchain_core")
    command = [sys.executable, "-m", "nonneg_cli", "index", str(photos), "-o", "photos.index", "--url", server]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=250, capture_output=True)
    for query in (photos / "cat" / "cat-0.jpg", "a cat"):
        lines = run("retriever.py", "photos.index", query).splitlines()
        assert len(lines) == 4
        assert lines[0].startswith("cat/cat-")
        assert "'folder': 'cat'" in lines[0]


def alone(name: str, *arguments: object) -> list[str]:
    """Run an example that needs no server."""
    # torchvision may be of another build than torch, which Lightning cannot import without this
    code = (
        "import sys, runpy, nonneg_training.encoder.torchvision_schemas; del sys.argv[0]; runpy.run_path(sys.argv[0])"
    )
    command = [sys.executable, "-c", code, str(EXAMPLES / name), *map(str, arguments)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True, env=env).stdout.splitlines()


def test_a_loop_of_ones_own_learns_and_is_measured_beside_floors() -> None:
    first, *lines = alone("own_loop.py", 40)
    assert first.startswith("loss ")
    figures = {line.partition(":")[0]: float(line.split()[-1]) for line in lines}
    assert figures["measured"] > figures["shuffled"]


@pytest.mark.nightly
def test_lightning_trains_with_the_losses() -> None:
    pytest.importorskip("lightning_utilities")  # comes with it, and imports no torch
    assert alone("own_loop_lightning.py", 5)[-1].startswith("5 steps, loss ")


@pytest.mark.nightly
def test_an_ncl_encoder_is_trained_and_served(run, tmp_path: Path) -> None:
    root = os.environ.get("NONNEG_DATA")
    if not root or not (Path(root) / "cifar-10-batches-py").is_dir():
        pytest.skip("$NONNEG_DATA holds no cifar-10-batches-py")
    lines = run("ncl_from_nothing.py", root, tmp_path / "work", 20).splitlines()
    assert [line.split()[0] for line in lines if "dimensions, " in line and "active: {" in line] == ["512", "128"]
    assert (tmp_path / "work" / "dimensions.png").is_file()
