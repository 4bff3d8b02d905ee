import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import (
    CheckFailed,
    ConfigInvalid,
    DeadlineExceeded,
    ImageUnsupported,
    NonnegError,
    NotReady,
    Overloaded,
)
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import PROVIDERS
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.engine.workers import Workers

pytestmark = pytest.mark.anyio
Png = Callable[[int], bytes]


@contextmanager
def jammed(workers: Workers) -> Iterator[None]:
    """Every thread busy until the block is left."""
    gate = threading.Event()
    busy = [workers.pool.submit(lambda: gate.wait(10)) for _ in range(workers.threads)]
    while workers.pool.waiting:
        pass
    try:
        yield
    finally:
        gate.set()
        for job in busy:
            job.result(60)


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(2, max_images=4, max_bytes=1 << 20)
    yield made
    made.close()


async def widened(engine: InferenceEngine, image: bytes) -> None:
    """Come alone until the wide session is open."""
    for _ in range(500):
        if (await engine.encode(image)).wide:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no wide session within five seconds")


@pytest.mark.parametrize("shared_from", [0, 2**40])
async def test_vectors_depend_neither_on_load_nor_on_the_wide_session(
    bundle: Bundle, png: Png, shared_from: int
) -> None:
    engine = InferenceEngine(bundle, threads=2, shared_from=shared_from)
    first = weakref.ref(engine.sessions.session)
    early = [await engine.encode(png(0))]
    await widened(engine, png(0))
    assert (engine.sessions.session is not first()) == (shared_from == 0), "one that shares its weights took its place"
    until = time.monotonic() + 20
    while shared_from == 0 and first() is not None and time.monotonic() < until:
        await asyncio.sleep(0.01)  # a thread may still be at its last run
    assert (first() is None) == (shared_from == 0), "what was replaced is given back"
    alone = [await engine.encode(png(i)) for i in range(6)]
    together = await asyncio.gather(*(engine.encode(png(i)) for i in range(6)))
    assert not early[0].wide
    np.testing.assert_allclose(early[0].vector, alone[0].vector, atol=1e-5)
    assert all(one.wide for one in alone)
    assert not all(one.wide for one in together)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.vector, other.vector, atol=1e-5)
    engine.close()


async def test_without_wide_a_second_session_is_not_opened(bundle: Bundle, png: Png) -> None:
    engine = InferenceEngine(bundle, threads=2, all_cores=False)
    assert not (await engine.encode(png(0))).wide
    assert not engine.sessions.began_wide
    engine.close()


async def test_a_model_that_is_never_asked_for_one_image_alone_opens_no_wide_session(bundle: Bundle, png: Png) -> None:
    engine = InferenceEngine(bundle, threads=2)
    await engine.encode_all([png(i) for i in range(8)])
    engine.submit(png(0)).result(60)
    assert not engine.sessions.began_wide
    engine.close()


async def test_a_wide_session_is_of_the_same_model_or_not_at_all(
    make_bundle: Callable[..., Bundle], tmp_path: Path, png: Png, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bundle = make_bundle(tmp_path, name="a", seed=1)
    engine = InferenceEngine(bundle, threads=2)
    before = (await engine.encode_all([png(0), png(1)]))[0]
    bundle.path.rename(tmp_path / "old")
    (tmp_path / "fresh").mkdir()
    make_bundle(tmp_path / "fresh", name="a", seed=2).path.rename(bundle.path)
    assert not (await engine.encode(png(0))).wide  # asks for the wide one, whose file is another by now
    for _ in range(6_000):  # a minute at most: another thread opens it
        if "a was replaced" in caplog.text:
            break
        await asyncio.sleep(0.01)
    after = await engine.encode(png(0))
    assert isinstance(before, Encoded)
    np.testing.assert_array_equal(after.vector, before.vector)
    assert not after.wide
    assert "a was replaced" in caplog.text
    engine.close()


@pytest.mark.parametrize("shared_from", [0, 2**40])
async def test_an_engine_that_rests_while_its_wide_session_opens_has_none_afterwards(
    bundle: Bundle, png: Png, shared_from: int
) -> None:
    engine = InferenceEngine(bundle, threads=2, shared_from=shared_from)
    gate, real = threading.Event(), engine.sessions.open_wide
    engine.sessions.open_wide = lambda: (gate.wait(10), real())[1]
    await engine.encode(png(0))
    engine.sessions.unload()
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "wide":
            thread.join(60)
    assert not engine.sessions.loaded
    assert not engine.sessions.wide
    await widened(engine, png(0))
    engine.close()


async def test_a_full_queue_refuses_a_request_whole_and_says_when_to_return(
    bundle: Bundle, png: Png, workers: Workers
) -> None:
    engine = InferenceEngine(bundle, workers=workers)
    with jammed(workers):
        waiting = [asyncio.create_task(engine.encode(png(i))) for i in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded) as refused:
            await engine.encode_all([png(8), png(9)])
        assert refused.value.retry_after is not None
        assert refused.value.retry_after > 0
        assert workers.pool.waiting == 3
    assert all(isinstance(found, Encoded) for found in await asyncio.gather(*waiting))
    assert workers.admission.images == 0


async def test_the_bytes_in_flight_are_bounded_too(bundle: Bundle, png: Png, workers: Workers) -> None:
    engine = InferenceEngine(bundle, workers=workers)
    with jammed(workers):
        waiting = asyncio.create_task(engine.encode(png(0) + b"\xff" * 900_000))
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded, match="bytes in flight"):
            await engine.encode(png(1) + b"\xff" * 900_000)
    await waiting


async def test_what_is_past_its_deadline_never_runs(bundle: Bundle, png: Png, workers: Workers) -> None:
    engine = InferenceEngine(bundle, workers=workers)
    with jammed(workers):
        soon = asyncio.get_running_loop().time() + 0.05
        with pytest.raises(DeadlineExceeded):
            await engine.encode_all([png(0), png(1)], deadline=soon)
        assert (workers.pool.waiting, workers.admission.images) == (0, 0)


async def test_a_cancelled_request_leaves_the_queue(bundle: Bundle, png: Png, workers: Workers) -> None:
    engine = InferenceEngine(bundle, workers=workers)
    with jammed(workers):
        task = asyncio.create_task(engine.encode_all([png(0), png(1)]))
        await asyncio.sleep(0.05)
        assert workers.pool.waiting == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (workers.pool.waiting, workers.admission.images) == (0, 0)


async def test_a_bad_image_has_its_own_error(bundle: Bundle, png: Png, workers: Workers) -> None:
    engine = InferenceEngine(bundle, workers=workers)
    good, bad, also_good = await engine.encode_all([png(0), b"nonsense", png(1)])
    assert isinstance(good, Encoded)
    assert isinstance(bad, ImageUnsupported)
    assert isinstance(also_good, Encoded)


async def test_an_encoder_that_keeps_failing_is_a_reason_to_end(
    bundle: Bundle, png: Png, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = InferenceEngine(bundle, workers=workers, all_cores=False)

    def broken(self: Session, pixels: object) -> object:
        raise OSError("the device is gone")

    monkeypatch.setattr(Session, "run", broken)
    for _ in range(3):
        assert engine.failure_reason() is None
        with pytest.raises(NonnegError, match="the encoder failed"):
            await engine.encode(png(0))
    assert "3 times in a row" in (engine.failure_reason() or "")


async def test_a_closed_engine_refuses_politely(bundle: Bundle, png: Png) -> None:
    engine = InferenceEngine(bundle, threads=1)
    engine.close()
    with pytest.raises(NotReady):
        await engine.encode(png(0))


def test_an_encoder_that_answers_otherwise_fails_its_self_test(bundle: Bundle, workers: Workers) -> None:
    golden = bundle.manifest.golden
    other = golden.model_copy(update={"values": tuple(reversed(golden.values))})
    manifest = bundle.manifest.model_copy(update={"golden": other})
    InferenceEngine(bundle, workers=workers).warm_up()
    with pytest.raises(CheckFailed, match="fails its self-test"):
        InferenceEngine(Bundle(bundle.path, manifest), workers=workers).warm_up()


async def test_batches_give_the_same_vectors_and_form_only_under_load(
    bundle: Bundle, png: Png, workers: Workers
) -> None:
    single, batching = InferenceEngine(bundle, threads=1), InferenceEngine(bundle, workers=workers, batch=8)
    batching.warm_up()
    alone = await batching.encode(png(0))
    assert batching.stats.batches.counts[0] == 1
    assert isinstance(await batching.encode_all([png(1), b"nonsense", png(2)]), list)
    found = []
    for wave in range(3):
        found += await batching.encode_all([png(4 * wave + i) for i in range(4)])
    for number, encoded in enumerate(found):
        assert isinstance(encoded, Encoded)
        np.testing.assert_allclose(encoded.vector, (await single.encode(png(number))).vector, atol=1e-5)
    np.testing.assert_allclose(alone.vector, found[0].vector, atol=1e-5)
    assert batching.stats.flush().images == 15
    batching.close()
    single.close()


async def test_a_deadline_in_a_forming_batch_frees_its_place(
    bundle: Bundle, png: Png, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = InferenceEngine(bundle, workers=workers, batch=4)
    gate = threading.Event()
    real = Session.run
    monkeypatch.setattr(Session, "run", lambda self, pixels: (gate.wait(10), real(self, pixels))[1])
    first = asyncio.create_task(engine.encode(png(0)))
    await asyncio.sleep(0.1)
    with pytest.raises(DeadlineExceeded):
        await engine.encode(png(1), deadline=asyncio.get_running_loop().time() + 0.05)
    assert workers.admission.images == 1
    gate.set()
    assert isinstance(await first, Encoded)
    engine.close()


def test_a_provider_that_is_not_there_is_refused_and_named(bundle: Bundle, workers: Workers) -> None:
    with pytest.raises(ConfigInvalid, match="CUDA"):
        InferenceEngine(bundle, workers=workers, providers=PROVIDERS["cuda"])


def test_a_batch_that_the_device_has_no_memory_for_ends_the_start_with_the_fix(
    bundle: Bundle, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = InferenceEngine(bundle, workers=workers, batch=8)
    real = Session.run

    def small(self: Session, pixels: np.ndarray) -> np.ndarray:
        if len(pixels) > 4:
            raise RuntimeError("out of memory")
        return real(self, pixels)

    monkeypatch.setattr(Session, "run", small)
    with pytest.raises(CheckFailed, match=r"8 images at once \(out of memory\)") as failed:
        engine.warm_up()
    assert failed.value.fix == "ask for a smaller --batch"
    engine.close()
