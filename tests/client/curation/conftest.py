"""A folder of small photos with copies, look-alikes and odd ones, and vectors that fit them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_cli.table import nonneg
from nonneg_client import Embeddings
from nonneg_client.search import Index

SIZE = (320, 240)


def scene(seed: int) -> Image.Image:
    """Blobs of colour with hard edges."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    smooth = Image.fromarray(small).resize(SIZE, Image.Resampling.BICUBIC)
    smooth.paste((250, 250, 250), (20 + 10 * (seed % 7), 30, 60 + 10 * (seed % 7), 90))
    return smooth


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """24 photos in the folders `cat` and `dog`; of cat/0 an exact copy, a half-sized and a mirrored one."""
    root = tmp_path_factory.mktemp("curated")
    for i in range(24):
        place = root / ("cat" if i < 12 else "dog")
        place.mkdir(exist_ok=True)
        scene(i).save(place / f"{i:02d}.png")
    first = scene(0)
    (root / "cat" / "00-again.png").write_bytes((root / "cat" / "00.png").read_bytes())
    first.resize((160, 120)).save(root / "cat" / "00-half.png")
    first.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(root / "dog" / "00-mirrored.png")
    Image.new("RGB", SIZE, (8, 8, 8)).save(root / "dog" / "black.png")
    return root


def vector(name: str) -> np.ndarray:
    """Photos of one folder share dimensions; copies of cat/00 have nearly its vector."""
    copy = name.startswith("00")
    number = int(name[:2]) if name[:2].isdigit() else 99
    rng = np.random.default_rng(number)
    z = np.zeros(64)
    z[rng.choice(20, 6, replace=False) + (0 if number < 12 else 20)] = 1 + rng.random(6)
    z[40 + number % 20] = 1.5
    if copy and name != "00.png" and name != "00-again.png":
        z += 0.2 * np.random.default_rng(len(name)).random(64)
    return z


@pytest.fixture(autouse=True)
def current(folder, monkeypatch) -> None:
    """Stand in the folder: vectors without origins say where no photo outside of it is."""
    monkeypatch.chdir(folder)


@pytest.fixture(scope="session")
def vectors(folder) -> Embeddings:
    paths = sorted(folder.rglob("*.png"))
    z = np.stack([vector(path.name) for path in paths]).astype(np.float32)
    ids = tuple(str(path) for path in paths)
    return Embeddings.from_dense(z, fingerprint="0" * 32, model="drawn", ids=ids).shorten()


@pytest.fixture
def index(vectors, tmp_path) -> Path:
    with Index.open(tmp_path / "photos.index", like=vectors) as made:
        made.add(vectors)
    return tmp_path / "photos.index"


@pytest.fixture
def run(tmp_path):
    """The command, with a cache of its own."""

    def invoke(*arguments: object):
        runner = CliRunner()
        return runner.invoke(nonneg, list(map(str, arguments)), env={"XDG_CACHE_HOME": str(tmp_path / "cache")})

    return invoke
