import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from nonneg_core.errors import ImageUnsupported
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.engine.vector_cache import OVERHEAD, Cache, key_of

Png = Callable[[int], bytes]


def test_the_cache_holds_no_more_than_its_bytes_and_forgets_what_was_used_longest_ago() -> None:
    cache = Cache(3 * (OVERHEAD + 2 * 8))
    vectors = {bytes([n]): np.float32([0, n, 0, 1]) for n in range(1, 6)}
    for key in (b"\1", b"\2", b"\3"):
        cache.put(key, vectors[key])
    np.testing.assert_array_equal(cache.get(b"\1"), vectors[b"\1"])
    cache.put(b"\4", vectors[b"\4"])
    assert cache.get(b"\2") is None
    assert cache.get(b"\1") is not None
    cache.put(b"\4", vectors[b"\5"])
    np.testing.assert_array_equal(cache.get(b"\4"), vectors[b"\5"])
    assert len(cache) == 3
    assert cache.bytes <= cache.max_bytes


def test_a_key_depends_on_the_model_and_on_every_byte() -> None:
    image = bytes(1000)
    keys = {key_of("a", image), key_of("b", image), key_of("a", image[:-1]), key_of("a", image[:-1] + b"\1")}
    assert len(keys) == 4


@pytest.mark.anyio
async def test_an_image_seen_before_is_not_encoded_again(bundle: Bundle, png: Png) -> None:
    engine = InferenceEngine(bundle, threads=1, cache=Cache(1 << 20))
    first = await engine.encode(png(0))
    again, new, bad = await engine.encode_all([png(0), png(1), b"nonsense"])
    assert isinstance(again, Encoded)
    assert isinstance(new, Encoded)
    assert isinstance(bad, ImageUnsupported)
    np.testing.assert_array_equal(first.vector, again.vector)
    assert engine.stats.flush().images == 2
    assert (engine.cache.hits, engine.cache.misses) == (1, 3)
    assert isinstance((await engine.encode_all([b"nonsense"]))[0], ImageUnsupported)  # errors are not remembered
    assert len(engine.cache) == 2
    await asyncio.sleep(0)
    engine.close()
