"""Several models in one process: named, aliased, put to rest, replaced and removed without losing a request."""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid, ModelNotFound, NotReady, ParameterInvalid
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.bundle_sessions import Sessions
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.workers import Workers
from nonneg_server.models.served_models import Registry, Repository
from nonneg_server.startup.app import create_app
from nonneg_server.startup.serve_command import repository_of
from nonneg_server.startup.server_settings import Settings

Make = Callable[..., Bundle]
Png = Callable[[int], bytes]


def loaded(settings: Settings) -> Repository:
    """A repository whose models are loaded."""
    repository = repository_of(settings)
    repository.load_all()
    return repository


def replace_bundle(make_bundle: Make, folder: Path, seed: int) -> Bundle:
    """Put a bundle with other weights at `folder`, as `nonneg export --replace` does."""
    fresh = folder.parent / f"fresh-{seed}"
    fresh.mkdir()
    made = make_bundle(fresh, name=folder.name, seed=seed)
    shutil.rmtree(folder)
    made.path.rename(folder)
    return made


@pytest.fixture
def two(tmp_path: Path, make_bundle: Make) -> Repository:
    for name, seed in (("a", 1), ("b", 2)):
        make_bundle(tmp_path, name=name, seed=seed)
    models = (str(tmp_path / "a"), f"renamed={tmp_path / 'b'}")
    repository = loaded(Settings(model=models, alias=("latest=renamed",), threads=1, manage=True, repository=tmp_path))
    yield repository
    repository.registry.close()


def test_the_first_model_is_the_default_and_names_and_aliases_find_the_others(two: Repository) -> None:
    registry = two.registry
    assert registry.get().name == registry.get("a").name == "a"
    assert registry.get("renamed") is registry.get("latest")
    assert registry.get("latest").bundle.manifest.name == "renamed"
    with pytest.raises(ModelNotFound, match="no model 'b'"):
        registry.get("b")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_a_hangup_reads_the_aliases_again_and_says_what_takes_a_restart(
    start: Callable, tmp_path: Path, make_bundle: Make
) -> None:
    fingerprints = [make_bundle(tmp_path, name=name, seed=seed).manifest.fingerprint for seed, name in enumerate("ab")]
    file = tmp_path / "nonneg.toml"
    models = f'model = ["{tmp_path}/a", "{tmp_path}/b"]\ndrain = 0\n'
    file.write_text(f'{models}alias = "current=a"\n')
    with start("--config", str(file)) as (address, process):

        def current() -> str:
            return str(httpx.get(f"{address}/models/current").json()["fingerprint"])

        def after_hangup(text: str, expected: str) -> str:
            file.write_text(text)
            process.send_signal(signal.SIGHUP)
            line = ""
            while expected not in line:
                line = process.stderr.readline()
                assert line
            return line

        assert current() == fingerprints[0]
        after_hangup(f'{models}alias = "current=b"\n', "read the aliases again: current=b")
        assert current() == fingerprints[1]
        said = after_hangup(f'{models}alias = "current=b"\nqueue = 7\nrate = 3\n', "takes a restart")
        assert f"changed in {file} and not read again, which takes a restart: rate, queue" in said
        for broken in ("alias = 'current=nothing'\n", "alias = ["):
            after_hangup(models + broken, "the aliases stay as they were")
            assert current() == fingerprints[1]


def test_two_models_of_one_name_are_refused(tmp_path: Path, make_bundle: Make) -> None:
    path = str(make_bundle(tmp_path, name="a").path)
    with pytest.raises(ConfigInvalid, match="two models are called a"):
        loaded(Settings(model=(path, path)))
    with pytest.raises(ConfigInvalid, match="--alias x=y"):
        loaded(Settings(model=(path,), alias=("x=y",)))


def test_the_variable_lists_models_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_MODEL", "a=/x,/y")
    assert Settings().model == ("a=/x", "/y")


def test_models_used_longest_ago_rest_and_wake(tmp_path: Path, make_bundle: Make, png: Png) -> None:
    models = tuple(str(make_bundle(tmp_path, name=name, seed=seed).path) for seed, name in enumerate("abc"))
    one = make_bundle(tmp_path, name="d").manifest.files["encoder.onnx"].bytes
    repository = loaded(Settings(model=models, threads=1, model_memory=int(2.5 * one)))
    engines = {name: repository.registry.get(name) for name in "abc"}
    assert [engines[name].sessions.loaded for name in "abc"] == [False, True, True]
    before = engines["b"].submit(png(0)).result(60).vector
    engines["a"].submit(png(0)).result(60)
    assert [engines[name].sessions.loaded for name in "abc"] == [True, True, False]
    np.testing.assert_array_equal(engines["b"].submit(png(0)).result(60).vector, before)
    repository.registry.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("copies", "sharing", "wide", "held"), [(1.5, True, True, 1), (1.5, False, False, 1), (2.5, False, True, 2)]
)
async def test_a_lone_image_gets_every_core_where_weights_are_shared_or_the_memory_holds_them_twice(
    tmp_path: Path,
    make_bundle: Make,
    png: Png,
    monkeypatch: pytest.MonkeyPatch,
    copies: float,
    sharing: bool,
    wide: bool,
    held: int,
) -> None:
    if not sharing:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    made = make_bundle(tmp_path, name="a")
    memory = int(copies * made.manifest.files["encoder.onnx"].bytes)
    repository = repository_of(Settings(model=(str(made.path),), threads=2, model_memory=memory))
    repository.make = partial(InferenceEngine, workers=repository.registry.workers, shared_from=0)
    repository.load_all()
    engine = repository.registry.get()
    await engine.encode(png(0))
    for thread in threading.enumerate():
        if thread.name == "wide":
            thread.join(60)
    assert (await engine.encode(png(0))).wide is wide
    assert engine.sessions.weight == held * made.manifest.files["encoder.onnx"].bytes
    repository.registry.close()


def test_a_resting_model_whose_folder_was_swapped_does_not_wake(tmp_path: Path, make_bundle: Make, png: Png) -> None:
    folder = make_bundle(tmp_path, name="a", seed=1).path
    repository = loaded(Settings(model=(str(folder),), threads=1))
    engine = repository.registry.get()
    replace_bundle(make_bundle, folder, seed=2)
    engine.submit(png(0)).result(60)  # loaded: the file is not read again
    engine.sessions.unload()
    with pytest.raises(NotReady, match="was replaced"):
        engine.submit(png(0)).result(60)
    (folder / "encoder.onnx").write_bytes(b"changed")
    with pytest.raises(NotReady, match="is damaged"):
        engine.submit(png(0)).result(60)
    repository.registry.close()


def test_a_reload_that_fails_leaves_the_model_as_it_was(two: Repository, tmp_path: Path, png: Png) -> None:
    before = two.registry.get("a")
    (tmp_path / "a" / "encoder.onnx").write_bytes(b"broken")
    failed = two.reload()
    assert set(failed) == {"a"}
    assert two.registry.get("a") is before
    assert two.registry.load_failures == 1
    before.submit(png(0)).result(60)


@pytest.mark.anyio
async def test_kserves_repository_routes_load_and_unload_and_the_log_says_who_asked(
    two: Repository, png: Png, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(two.registry, Settings(manage=True), repository=two)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        states = {row["name"]: row["state"] for row in (await client.post("/v2/repository/index")).json()}
        assert states == {"a": "READY", "renamed": "READY", "b": "UNAVAILABLE"}
        assert (await client.post("/v2/repository/models/b/load")).status_code == 200
        assert (await client.post("/embed?model=b", content=png(0))).json()["model"] == "b"
        for name in ("a", "renamed"):
            assert (await client.post(f"/v2/repository/models/{name}/unload")).status_code == 200
        assert (await client.post("/embed?model=a", content=png(0))).status_code == 404
        nameless = await client.post(
            "/embed", content=png(0)
        )  # never another model's vectors in the default one's place
        assert (nameless.status_code, "default model, a, is not loaded" in nameless.text) == (404, True)
        last = await client.post("/v2/repository/models/b/unload")
        assert (last.status_code, "only model" in last.text) == (422, True)
        assert (await client.post("/v2/repository/models/..%2Fx/load")).status_code == 404
        assert (await client.post("/v2/repository/models/a/load")).status_code == 200
        assert (await client.post("/embed", content=png(0))).json()["model"] == "a"
        assert [model["name"] for model in (await client.get("/models")).json()["models"]] == ["a", "b"]
        told = [(record.getMessage(), record.request_id) for record in caplog.records if record.name == "nonneg"]
        assert len(told) == 4
        assert told[1][0] == "unloaded a, as 127.0.0.1 asked"
        assert all(request_id for _, request_id in told)


def test_of_two_models_that_are_unloaded_at_once_one_stays(two: Repository) -> None:
    registry = two.registry
    names = [engine.name for engine in registry.all()]
    engines = {engine.name: engine for engine in registry.all()}
    for _ in range(50):
        together, outcomes = threading.Barrier(len(names)), []

        def unload(name: str, together: threading.Barrier = together, outcomes: list[str] = outcomes) -> None:
            together.wait(10)
            try:
                registry.remove(name)
            except ParameterInvalid as error:
                outcomes.append(error.message)

        threads = [threading.Thread(target=unload, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = [engine.name for engine in registry.all()]
        assert len(left) == 1
        assert outcomes == [f"{left[0]} is the only model served"]
        for name in names:
            if name not in left:
                registry.put(engines[name])


def test_two_loads_at_once_end_with_the_later_state(two: Repository, make_bundle: Make, tmp_path: Path) -> None:
    make, began, go_on = two.make, threading.Event(), threading.Event()

    def slowly(bundle: Bundle) -> InferenceEngine:
        engine = make(bundle)
        began.set()
        assert go_on.wait(10)
        return engine

    two.make = slowly
    early = threading.Thread(target=two.load, args=("a",))
    early.start()
    assert began.wait(10)
    two.make = make
    wanted = replace_bundle(make_bundle, tmp_path / "a", seed=7).manifest.fingerprint
    late = threading.Thread(target=two.load, args=("a",))
    late.start()
    time.sleep(0.3)
    go_on.set()
    early.join(60)
    late.join(60)
    assert two.registry.get("a").bundle.manifest.fingerprint == wanted


@pytest.mark.slow
def test_models_that_go_to_rest_or_away_give_their_memory_back(tmp_path: Path, make_bundle: Make) -> None:
    models = tuple(str(make_bundle(tmp_path, name=name, seed=seed).path) for seed, name in enumerate("abc"))
    repository = loaded(Settings(model=models, threads=1))
    sessions = {name: weakref.ref(repository.registry.get(name).sessions.session) for name in "abc"}
    gc.collect()
    gc.disable()  # nothing may wait for a collection that comes by itself
    try:
        repository.unload("c")
        assert sessions["c"]() is None
        repository.registry.memory = 1
        repository.load("b")
        assert [repository.registry.get(name).sessions.loaded for name in "ab"] == [False, True]
        assert [sessions[name]() for name in "ab"] == [None, None]
    finally:
        gc.enable()
        repository.registry.close()


@pytest.mark.anyio
async def test_without_manage_models_are_listed_and_not_loaded(two: Repository) -> None:
    app = create_app(two.registry, Settings(), repository=two)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        listed = (await client.post("/v2/repository/index")).json()
        assert {row["name"] for row in listed} >= {"a", "b"}
        assert (await client.post("/v2/repository/models/b/load")).status_code == 404


@pytest.mark.parametrize("batch", [0, 4])
def test_a_model_that_was_replaced_leaves_neither_memory_nor_threads_behind(
    two: Repository, png: Png, batch: int
) -> None:
    workers = Workers(1)
    registry = Registry(workers=workers)
    bundle = two.registry.get("a").bundle
    before = threading.active_count()

    def served() -> tuple[weakref.ref[InferenceEngine], weakref.ref[Sessions]]:
        engine = InferenceEngine(bundle, workers=workers, batch=batch)
        registry.put(engine)
        asyncio.run(engine.encode(png(0)))
        return weakref.ref(engine), weakref.ref(engine.sessions)

    gc.collect()
    gc.disable()  # nothing may wait for a collection: what was there at the start is never collected at all
    try:
        old = served()
        served()
        until = time.monotonic() + 60
        while threading.active_count() > before + bool(batch) and time.monotonic() < until:
            time.sleep(0.01)
        assert [reference() for reference in old] == [None, None]
        assert threading.active_count() <= before + bool(batch)
    finally:
        gc.enable()
        registry.close()


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--batch", "4")])
def test_sighup_under_load_swaps_the_model_and_loses_nothing(
    start: Callable, tmp_path: Path, make_bundle: Make, png: Png, flags: tuple[str, ...]
) -> None:
    folder = make_bundle(tmp_path, name="a", seed=1).path
    quiet = ("--log-level", "error")  # the log's thread begins with its first line, and would be counted
    with start("--model", str(folder), "--drain", "0", *quiet, *flags) as (address, process):
        tasks = Path(f"/proc/{process.pid}/task")
        threads_before = len(list(tasks.iterdir())) if tasks.exists() else 0
        statuses, fingerprints, stop = set(), set(), threading.Event()

        def ask() -> None:
            with httpx.Client() as client:
                while not stop.is_set():
                    found = client.post(f"{address}/embed", content=png(0))
                    statuses.add(found.status_code)
                    fingerprints.add(found.json().get("fingerprint"))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while not fingerprints and time.monotonic() < until:
            time.sleep(0.02)
        wanted = set()
        for seed in (2, 3):
            wanted.add(replace_bundle(make_bundle, folder, seed).manifest.fingerprint)
            process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 60
            while not wanted <= fingerprints and time.monotonic() < until:
                time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join(60)
        assert statuses == {200}
        assert wanted <= fingerprints
        assert len(fingerprints) == 3
        if tasks.exists():
            most = threads_before + available_cores()  # the one that loads models stays, and a wide session's own
            until = time.monotonic() + 60
            while len(list(tasks.iterdir())) > most and time.monotonic() < until:
                time.sleep(0.05)
            assert len(list(tasks.iterdir())) <= most


@pytest.mark.slow
def test_a_hangup_during_a_reload_is_not_lost(start: Callable, tmp_path: Path, make_bundle: Make) -> None:
    folder = make_bundle(tmp_path, name="a", seed=1).path
    slow, read, go_on = (tmp_path / name for name in ("slow.py", "read", "go-on"))
    slow.write_text(SLOW)
    with start("--model", str(folder), "--drain", "0", command=(str(slow),)) as (address, process):
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 60
        while not read.exists():  # the first reload has read the old bundle
            assert time.monotonic() < until
            time.sleep(0.01)
        wanted = replace_bundle(make_bundle, folder, 2).manifest.fingerprint
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)  # a hangup that comes during the first is what is tried; a later one is answered, too
        go_on.touch()
        while (found := httpx.get(f"{address}/models").json()["models"][0]["fingerprint"]) != wanted:
            assert time.monotonic() < until, found
            time.sleep(0.05)


SLOW = """
import time
from pathlib import Path
from nonneg_cli.table import main
from nonneg_server.models.served_models import Repository

folder = Path(__file__).parent

def reload(self, original=Repository.reload):
    failed = original(self)
    (folder / "read").touch()
    while not (folder / "go-on").exists():
        time.sleep(0.01)
    return failed

Repository.reload = reload
main()
"""


@pytest.mark.slow
def test_a_model_file_that_is_spoilt_while_it_serves_changes_nothing_until_it_is_whole_again(
    start: Callable, tmp_path: Path, make_bundle: Make, png: Png
) -> None:
    folder = make_bundle(tmp_path, name="a", seed=1).path
    encoder = folder / "encoder.onnx"
    whole = encoder.read_bytes()
    mishaps = {  # in place: the very file that the server has opened
        "overwritten": lambda: encoder.write_bytes(bytes(len(whole))),
        "cut off": lambda: os.truncate(encoder, 100),
        "removed": encoder.unlink,
    }
    with start("--model", str(folder), "--drain", "0", "--manage") as (address, process), httpx.Client() as client:

        def ask() -> dict:
            found = client.post(f"{address}/embed", content=png(0))
            assert found.status_code == 200
            return found.json()

        before = ask()
        for mishap, spoil in mishaps.items():
            spoil()
            refused = client.post(f"{address}/v2/repository/models/a/load")
            assert (refused.status_code, "what was served goes on" in refused.json()["error"]) == (422, True), mishap
            assert [ask() for _ in range(10)] == [before] * 10
            assert client.get(f"{address}/readyz").status_code == 200
            encoder.write_bytes(whole)
            assert client.post(f"{address}/v2/repository/models/a/load").status_code == 200
            assert ask() == before
        process.terminate()
        assert process.wait(20) == 0
        lines = [line for line in process.stderr if " INFO " not in line]  # such as that one core has to do
        told = [line.partition(" a ")[0].split()[2:] for line in lines]
        assert told == [["WARNING"], ["WARNING", "loaded"]] * 3
