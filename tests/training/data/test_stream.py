"""Tar shards behind http: streamed from a real server, which drops connections and forgets ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import httpx
import pytest
import torch

from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid
from nonneg_training.data import Sample, ShardStream, open_source
from nonneg_training.data.shard_stream import Download, shown
from nonneg_training.data.tar_shards import expand
from nonneg_training.loop.batches import StreamBatches
from nonneg_training.loop.build_encoder import resolve
from nonneg_training.loop.training_run import train
from nonneg_training.setup.batch_order import Steps
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import Data, Views, read_settings
from nonneg_training.views import cutter_for


@dataclass
class Shelf:
    """What the server has, and how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    asked: list[str] = field(default_factory=list)
    drop_after: int | None = None  # bytes an answer
    ranges: bool = True
    refuse: list[int] = field(default_factory=list)  # statuses to answer first
    grow: bool = False  # another file with every answer


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    found = Shelf()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            found.asked.append(asked)
            body = found.files.get(self.path.partition("?")[0])
            status = found.refuse.pop(0) if found.refuse else 404 if body is None else 200
            if status != 200 or body is None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body += b"\0" * 512 * len(found.asked) if found.grow else b""
            start = int(asked[6:-1]) if asked and found.ranges else 0
            self.send_response(206 if start else 200)
            self.send_header("ETag", f'"{len(body)}"')
            self.send_header("Content-Length", str(len(body) - start))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.end_headers()
            part = body[start:] if found.drop_after is None else body[start:][: found.drop_after]
            self.wfile.write(part)  # fewer than announced: the connection then closes

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def shards(shelf: Shelf, tmp_path: Path, write_shard: Callable[..., None]) -> Shelf:
    """Four shards of six images, values 0 to 23."""
    for number in range(4):
        path = tmp_path / f"train-{number:02}.tar"
        write_shard(path, {f"k{6 * number + i:02}": 6 * number + i for i in range(6)})
        shelf.files[f"/{path.name}"] = path.read_bytes()
    return shelf


def stream(shelf: Shelf, **options: object) -> ShardStream:
    given = {"images": 24, "shuffle": 5, "pause": 0.0, **options}
    return ShardStream(f"{shelf.url}/train-{{00..03}}.tar", **given)  # type: ignore[arg-type]


def names(samples: Iterator[Sample], most: int) -> list[str]:
    return [sample.name.rpartition(":")[2] for sample in islice(samples, most)]


def test_braces_are_expanded_as_shells_do() -> None:
    assert expand("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand("{x,y}/{0..1}.tar") == ["x/0.tar", "x/1.tar", "y/0.tar", "y/1.tar"]
    assert expand("plain.tar") == ["plain.tar"]


def test_an_epoch_sees_every_image_once_in_another_order_each_time(shards: Shelf) -> None:
    found = stream(shards)
    first, second = (names(found.epoch(0, epoch, ProcessGroup()), 24) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == [f"k{i:02}" for i in range(24)]
    assert first != second
    assert names(stream(shards).epoch(0, 1, ProcessGroup()), 24) == second
    labels = {s.name[-2:]: s.label for s in islice(found.epoch(0, 0, ProcessGroup()), 24)}
    assert labels == {f"{i:02}": i % 3 for i in range(24)}


def test_ranks_share_the_shards_and_begin_again_when_theirs_are_read(shards: Shelf) -> None:
    found = stream(shards)
    mine, yours = (names(found.epoch(0, 0, ProcessGroup(rank, 2)), 12) for rank in (0, 1))
    assert sorted(mine + yours) == [f"k{i:02}" for i in range(24)]
    assert len(names(found.epoch(0, 0, ProcessGroup(0, 3)), 24)) == 24
    with pytest.raises(ConfigInvalid, match="4 shards cannot be shared by 5"):
        next(found.epoch(0, 0, ProcessGroup(0, 5)))


def test_a_dropped_connection_is_taken_up_where_it_broke_off(shards: Shelf) -> None:
    whole = names(stream(shards).epoch(0, 0, ProcessGroup()), 24)
    assert not any(shards.asked)
    shards.drop_after = 4000
    assert names(stream(shards).epoch(0, 0, ProcessGroup()), 24) == whole
    assert {"bytes=4000-", "bytes=8000-"} <= set(shards.asked)


def test_a_server_without_ranges_is_read_once_more_from_the_front(shards: Shelf) -> None:
    whole = shards.files["/train-00.tar"]
    shards.ranges, shards.drop_after = False, len(whole) // 2
    file = Download(f"{shards.url}/train-00.tar", httpx.Client(), pause=0)
    begun = file.read(100)
    shards.drop_after = None
    assert begun + b"".join(iter(lambda: file.read(5000), b"")) == whole
    assert shards.asked == ["", f"bytes={len(whole) // 2}-"]


def test_a_server_that_is_busy_is_asked_again_and_one_that_is_gone_is_named(shards: Shelf) -> None:
    shards.refuse = [503, 429]
    assert len(names(stream(shards).epoch(0, 0, ProcessGroup()), 24)) == 24
    shards.drop_after = 0
    with pytest.raises(ConnectionFailed, match=r"train-0\d\.tar broke off at byte 0, 6 times in a row"):
        names(stream(shards).epoch(0, 0, ProcessGroup()), 24)
    nowhere = ShardStream("http://127.0.0.1:9/a.tar", 8, pause=0.0)
    with pytest.raises(ConnectionFailed, match="broke off at byte 0"):
        next(nowhere.epoch(0, 0, ProcessGroup()))


def test_a_file_that_changes_or_is_not_there_or_is_not_a_tar_is_refused(shards: Shelf) -> None:
    shards.drop_after, shards.grow = 4000, True
    with pytest.raises(DataInvalid, match="changed while it was read"):
        names(stream(shards).epoch(0, 0, ProcessGroup()), 24)
    shards.drop_after, shards.grow = None, False
    with pytest.raises(DataInvalid, match="answered 404"):
        next(ShardStream(f"{shards.url}/other.tar?key=secret", 8).epoch(0, 0, ProcessGroup()))
    shards.files["/other.tar"] = shards.files["/train-00.tar"][:2000]
    with pytest.raises(DataInvalid, match="not a whole tar file"):
        names(ShardStream(f"{shards.url}/other.tar", 8).epoch(0, 0, ProcessGroup()), 24)
    shards.files["/other.tar"] = bytes(10240)
    with pytest.raises(DataInvalid, match="holds no images"):
        next(ShardStream(f"{shards.url}/other.tar", 8).epoch(0, 0, ProcessGroup()))
    assert shown("https://me:secret@host:8443/a/b.tar?token=secret") == "https://host:8443/a/b.tar"


def test_a_batch_depends_on_its_place_only_so_that_a_run_can_go_on_in_the_middle(shards: Shelf) -> None:
    plan = Steps(24, 4, 1, 2, seed=3, world=ProcessGroup())

    def batch(batches: StreamBatches, number: int) -> torch.Tensor:
        g = torch.Generator().manual_seed(number)
        return batches.finish(batches.fetch(plan.place(number), g), g)["views"]

    def fresh() -> StreamBatches:
        return StreamBatches(stream(shards), cutter_for(Views(), 8), 2, 3, ProcessGroup())

    batches = fresh()
    whole = [batch(batches, number) for number in range(plan.total)]
    for number in (2, 3, 7):
        assert torch.equal(batch(fresh(), number), whole[number])


def test_a_run_on_a_stream_trains_counts_the_broken_and_reads_its_first_images(
    shards: Shelf, tmp_path: Path, write_shard: Callable[..., None]
) -> None:
    write_shard(tmp_path / "broken.tar", {f"k{i}": i for i in range(6)}, broken="k3")
    shards.files["/train-02.tar"] = (tmp_path / "broken.tar").read_bytes()
    source = f"{shards.url}/train-{{00..03}}.tar"
    changes = {"data.source": source, "data.images": 24, "data.classes": 3, "loop.batch": 6, "loop.epochs": 2}
    changes |= {"views.size": 16, "method": "nce", "loop.monitor_images": 9}
    outcome = train(read_settings(None, changes), tmp_path / "run")
    assert outcome.steps == 8
    assert [name.rpartition(":")[2] for name in outcome.broken] == ["k3"]
    assert outcome.reading is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.images": None}, "is streamed and not counted"),
        ({"method": "head", "model.pretrained": "DEFAULT"}, "those of a stream are not"),
        ({"method": "ce"}, "how many labels"),
        ({"method": "two-tower"}, "images with captions"),
        ({"data.source": "s3://bucket/{0..9}.tar"}, "mount the store"),
        ({"data.source": "pipe:cat x.tar"}, "cannot be read"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(changes: dict[str, object], message: str) -> None:
    settings = read_settings(None, {"data.source": "http://127.0.0.1:9/a.tar", "data.images": 256, **changes})
    with pytest.raises(ConfigInvalid, match=message):
        resolve(settings, open_source(settings.data), ProcessGroup())


def test_a_label_outside_the_classes_is_refused(shards: Shelf) -> None:
    found = open_source(Data(source=f"{shards.url}/train-00.tar", images=6, classes=2))
    assert isinstance(found, ShardStream)
    with pytest.raises(DataInvalid, match=r"k02 has the label 2, and data\.classes is 2"):
        names(found.epoch(0, 0, ProcessGroup()), 6)
