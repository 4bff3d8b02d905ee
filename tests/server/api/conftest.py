"""What the tests of all dialects compare with: the encoder in this process, and pictures as data URIs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nonneg_client import Encoder
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_vectors.storage.embeddings import Embeddings


@pytest.fixture(scope="module")
def local(bundle: Bundle) -> Iterator[Callable[..., np.ndarray]]:
    """What the encoder in this process answers."""
    with Encoder(bundle) as encoder:

        def embed(*images: bytes, **options: Any) -> np.ndarray:
            found: Embeddings = encoder.embed(list(images), **options)
            return found.numpy()

        yield embed


@pytest.fixture(scope="session")
def png_uri(png: Callable[[int], bytes]) -> Callable[[int], str]:
    """The picture of that seed as a data URI."""
    return lambda seed: "data:image/png;base64," + base64.b64encode(png(seed)).decode()
