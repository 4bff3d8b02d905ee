"""Two that write one index at once leave a whole one: the second waits, or is refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nonneg_cli.table import nonneg
from nonneg_client.search import Index
from nonneg_core.errors import FingerprintMismatch, StorageFailed
from nonneg_vectors.search import local_engine
from nonneg_vectors.search.local_engine import LocalEngine

NONNEG = str(Path(sys.executable).with_name("nonneg"))


@pytest.fixture
def slow_engine(monkeypatch):
    """An engine that is slow to make a folder; the event is set once it has begun."""
    make, begun = LocalEngine._make, threading.Event()

    def slow(*args: Any) -> None:
        begun.set()
        time.sleep(0.5)
        make(*args)

    monkeypatch.setattr(LocalEngine, "_make", slow)
    return begun


def first_to_make(path, vectors):
    def make():
        with Index.open(path, like=vectors) as index:
            index.add(vectors)

    thread = threading.Thread(target=make)
    thread.start()
    return thread


def test_an_index_that_is_being_made_is_not_removed_by_another(slow_engine, random_embeddings, tmp_path):
    vectors, others = random_embeddings(9), random_embeddings(5, seed=1).named(list("abcde"))
    thread = first_to_make(tmp_path / "x", vectors)
    assert slow_engine.wait(30)
    with Index.open(tmp_path / "x", like=others) as index:
        index.add(others)
    thread.join()
    with Index.open(tmp_path / "x") as index:
        assert len(index) == 14
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [
        "index.json",
        "photos.sqlite",
        "rows.0",
        "values.0",
    ]


def test_one_of_another_model_that_was_made_meanwhile_is_noticed(slow_engine, random_embeddings, tmp_path):
    thread = first_to_make(tmp_path / "x", random_embeddings(9))
    assert slow_engine.wait(30)
    with pytest.raises(FingerprintMismatch):
        Index.open(tmp_path / "x", like=random_embeddings(9, fingerprint="other"))
    thread.join()


def test_an_index_is_searched_while_another_process_adds_to_it(random_embeddings, tmp_path):
    first, second = random_embeddings(9), random_embeddings(5, seed=1).named(list("abcde"))
    with Index.open(tmp_path / "x", like=first) as writer, Index.open(tmp_path / "x") as reader:
        writer.add(first)
        assert len(reader.search(first[0], 20)) > 0
        writer.add(second)
        assert reader.search(second[2], 1)[0].id == "c"
        writer.delete(["c"])
        assert reader.search(second[2], 1)[0].id != "c"


def test_a_change_waits_for_another_process_and_is_then_refused(random_embeddings, tmp_path, monkeypatch):
    monkeypatch.setattr(local_engine, "PATIENCE", 0.2)
    vectors = random_embeddings(9)
    with Index.open(tmp_path / "x", like=vectors) as index, Index.open(tmp_path / "x") as other:
        with (
            other.engine._changing(),
            pytest.raises(StorageFailed, match="is written by another process: wait for it"),
        ):
            index.add(vectors)
        index.add(vectors)
        assert len(other) == 9


def test_a_second_command_is_refused_in_one_sentence_and_reading_goes_on(random_embeddings, tmp_path):
    from nonneg_core.files.one_writer import one_writer

    random_embeddings(9).save(tmp_path / "v.npz")
    line = ["index", str(tmp_path / "v.npz"), "-o", str(tmp_path / "x")]
    assert CliRunner().invoke(nonneg, line).exit_code == 0
    with one_writer(tmp_path / "x"):
        refused = CliRunner().invoke(nonneg, line)
        assert "another nonneg is writing" in str(refused.exception)
        assert CliRunner().invoke(nonneg, ["search", str(tmp_path / "x"), "--more", "3"]).exit_code == 0


@pytest.mark.slow
def test_pairs_of_commands_on_a_new_index_leave_whole_ones(random_embeddings, tmp_path):
    random_embeddings(9).save(tmp_path / "v.npz")
    for name in "abc":
        line = [NONNEG, "index", str(tmp_path / "v.npz"), "-o", str(tmp_path / name)]
        pair = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=120)[1] for process in pair]
        assert 0 in [process.returncode for process in pair]
        assert not any("Traceback" in text for text in said)
        with Index.open(tmp_path / name) as index:
            assert len(index) == 9
