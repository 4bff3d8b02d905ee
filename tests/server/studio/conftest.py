"""A folder of photos, indexed, and the application that shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nonneg_core.shortening import Vectors, shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.encoder import BundleEncoder
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.storage.embeddings import Embeddings

NAMES = [f"{place}/photo-{i:02d}.png" for i, place in enumerate(["sea", "wood", "town"] * 8)]
HOME = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder of one test: no test touches the real one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, png: Callable[[int], bytes]) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for i, name in enumerate(NAMES):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(png(i))
    return root


@pytest.fixture(scope="session")
def vectors(bundle: Bundle, folder: Path) -> Vectors:
    """Of length one, in the order of NAMES."""
    encoder = BundleEncoder(bundle, threads=1)
    try:
        return shorten(np.stack([encoder.submit((folder / name).read_bytes()).result() for name in NAMES]))
    finally:
        encoder.close()


@pytest.fixture(scope="session")
def collection(bundle: Bundle, folder: Path, vectors: Vectors) -> Collection:
    manifest = bundle.manifest
    rows = Embeddings.from_dense(vectors, fingerprint=manifest.fingerprint, model=manifest.name, ids=tuple(NAMES))
    return Collection("photos.index", rows, [{}] * len(rows), str(folder))


StudioFor = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="session")
def studio_for(registry: Registry, collection: Collection) -> StudioFor:
    """A client of the application, with settings of one's own; `root=` and `folder=None` change what is indexed."""

    def make(root: Path | None = None, indexed: bool = True, **settings: Any) -> httpx.AsyncClient:
        held = replace(collection, root=str(root)) if root is not None else collection
        app = create_app(registry, Settings(**settings), collection=held if indexed else None)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOME)

    return make


@pytest.fixture
async def studio(studio_for: StudioFor) -> AsyncIterator[httpx.AsyncClient]:
    async with studio_for() as client:
        yield client
