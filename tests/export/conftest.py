"""Real photos that come inside scikit-image's wheel, and folders made of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from loopback_hub import Hub, running
from PIL import Image

import nonneg_training  # noqa: F401  before torch: its threads sleep soon, also beside the other test process

PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg", "retina.jpg")


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub of one's own on this machine."""
    with running() as server:
        yield server


@pytest.fixture
def here(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub that the library huggingface_hub asks, with a cache of its own."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    return hub


@pytest.fixture(scope="session")
def real_photos() -> list[Image.Image]:
    """Six real photographs, made small enough to be handled fast."""
    folder = Path(skimage.data.__file__).parent
    photos = []
    for name in PHOTOS:
        with Image.open(folder / name) as photo:
            small = photo.convert("RGB")
            small.thumbnail((160, 160))
            photos.append(small)
    return photos


@pytest.fixture(scope="session")
def labelled(real_photos: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """folder/class/image.jpg: six classes of ten overlapping crops each."""
    return crops(real_photos, tmp_path_factory.mktemp("labelled"), share=0.7)


@pytest.fixture(scope="session")
def held_out(real_photos: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other crops of the same classes, to report quality on."""
    return crops(real_photos, tmp_path_factory.mktemp("held-out"), share=0.65)


def crops(photos: list[Image.Image], root: Path, *, share: float) -> Path:
    rng = np.random.default_rng(0)
    for name, photo in zip(PHOTOS, photos, strict=True):
        folder = root / Path(name).stem
        folder.mkdir()
        for i in range(10):
            w, h = (int(side * share) for side in photo.size)
            x, y = rng.integers(0, photo.width - w), rng.integers(0, photo.height - h)
            photo.crop((x, y, x + w, y + h)).save(folder / f"{i:02}.jpg", quality=90)
    return root
