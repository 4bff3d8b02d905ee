"""A client of the real server, and vectors to play with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nonneg_client import Client, Embeddings

Random = Callable[..., Embeddings]


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[Client]:
    with Client(server) as client:
        yield client


@pytest.fixture(scope="session")
def random_embeddings() -> Random:
    """Sparse, non-negative vectors of length one, with skewed dimensions as real ones have."""

    def make(n: int = 50, dimensions: int = 64, *, seed: int = 0, fingerprint: str = "f" * 32) -> Embeddings:
        rng = np.random.default_rng(seed)
        z = np.maximum(rng.normal(size=(n, dimensions)) - np.linspace(0, 2, dimensions), 0)
        ids = tuple(f"photos/{i:05d}.jpg" for i in range(n))
        raw = Embeddings.from_dense(z, fingerprint=fingerprint, model="random", ids=ids, normalized=False)
        return raw.shorten()

    return make
