"""The client against a server that drops, refuses, dawdles and lies."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from nonneg_client import AsyncClient, Client
from nonneg_client.wire.client_settings import RateController, RetryPolicy
from nonneg_client.wire.protocol import error_of, retry_after
from nonneg_core.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    FingerprintMismatch,
    ImageUnreadable,
    NonnegError,
    NotReady,
    Overloaded,
    ParameterInvalid,
    ResponseInvalid,
    Unauthorized,
)

MEBI = 2**20
PASSING_FAULTS = [
    "drop",
    "half",
    ("overloaded", 0.01),
    ("error", (503, "not_ready")),
    ("error", (504, "deadline_exceeded")),
    ("error", (408, "request_timeout")),
    ("garbage", b"<html>a proxy's idea of an answer</html>"),
    ("garbage", {"data": []}),
]


def blocking(url, images, **tuning):
    with Client(url, retry_delay=0.01, **tuning) as client:
        return client.embed(images, on_error="return")


def asynchronous(url, images, **tuning):
    async def embed():
        async with AsyncClient(url, retry_delay=0.01, **tuning) as client:
            return await client.embed(images, on_error="return")

    return asyncio.run(embed())


both = pytest.mark.parametrize("embed", [blocking, asynchronous])


def numbers(n):
    return [str(i).encode() for i in range(n)]


@both
@pytest.mark.parametrize("fault", PASSING_FAULTS, ids=str)
def test_what_may_pass_is_tried_again_and_order_is_kept(embed, fault, faulty):
    faulty.plan = ["none", fault, fault, "none", fault]
    embeddings = embed(faulty.url, numbers(40), batch_size=4)
    assert embeddings.indices.tolist() == list(range(40))
    assert len(faulty.seen) == 13


@both
def test_every_kind_of_fault_together_loses_and_doubles_nothing(embed, faulty):
    faulty.plan = [*itertools.chain.from_iterable(zip(PASSING_FAULTS, ["none"] * 8, strict=True))] * 3
    embeddings = embed(faulty.url, numbers(200), batch_size=3, retries=20)
    assert embeddings.indices.tolist() == list(range(200))


@both
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("drop", ConnectionFailed),
        ("half", ConnectionFailed),
        (("error", (503, "not_ready")), NotReady),
        (("garbage", b"no"), ResponseInvalid),
    ],
)
def test_after_enough_tries_the_last_error_is_raised(embed, fault, kind, faulty):
    faulty.plan = [fault] * 99
    with pytest.raises(kind):
        embed(faulty.url, [b"1"], retries=2)
    assert len(faulty.seen) == 3


@both
@pytest.mark.parametrize(
    ("detail", "kind"), [((401, "unauthorized"), Unauthorized), ((422, "parameter_invalid"), ParameterInvalid)]
)
def test_what_cannot_pass_is_not_tried_again(embed, detail, kind, faulty):
    faulty.plan = [("error", detail)] * 9
    with pytest.raises(kind) as caught:
        embed(faulty.url, [b"1"])
    assert len(faulty.seen) == 1
    fix = "--api-key" if kind is Unauthorized else "wait"  # the client's own words where a key is missing
    assert (caught.value.message, caught.value.request_id) == ("injected", "r1")
    assert fix in caught.value.fix


@both
def test_the_server_says_how_long_to_wait(embed, faulty):
    faulty.plan = [("overloaded", 0.5)]
    start = time.monotonic()
    embed(faulty.url, [b"1"])
    assert time.monotonic() - start >= 0.5


@both
def test_a_storm_of_refusals_is_waited_out(embed, faulty):
    faulty.plan = [("overloaded", 0.02)] * 60
    embeddings = embed(faulty.url, numbers(30), batch_size=3, retries=0)
    assert embeddings.indices.tolist() == list(range(30))


@both
def test_patience_with_refusals_ends(embed, faulty):
    faulty.plan = [("overloaded", 0.1)] * 99
    with pytest.raises(Overloaded) as caught:
        embed(faulty.url, [b"1"], overload_timeout=0.3)
    assert caught.value.retry_after == 0.1
    assert len(faulty.seen) <= 5


@both
def test_a_slow_answer_is_given_up_in_time(embed, faulty):
    faulty.plan = [("slow", 60)] * 9
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
        embed(faulty.url, [b"1"], timeout=0.2, retries=0)
    assert time.monotonic() - start < 50, "it waited for the answer"


@both
def test_a_model_that_changes_between_requests_is_noticed(embed, faulty):
    faulty.plan = ["none", "none", ("changed", {"fingerprint": "e" * 32})]
    with pytest.raises(FingerprintMismatch, match="changed from model"):
        embed(faulty.url, numbers(12), batch_size=4)


@both
@pytest.mark.parametrize(
    "lie",
    [
        {"data": [{"index": 0, "indices": [5, 5], "values": [1.0, 1.0]}]},
        {"data": [{"index": 0, "indices": [5, 4], "values": [1.0, 1.0]}]},
        {"data": [{"index": 0, "indices": [1000], "values": [1.0]}]},
        {"data": [{"index": 0, "indices": [-1], "values": [1.0]}]},
        {"data": [{"index": 0, "indices": [1], "values": [1.0, 2.0]}]},
        {"data": [{"index": 0, "indices": [1], "values": [-1.0]}]},
        {"data": [{"index": 0, "indices": [1], "values": [float("nan")]}]},
        {"data": [{"index": 0}]},
        {"data": []},
        {"dimensions": "many"},
        {"data": None},
    ],
    ids=str,
)
def test_an_answer_that_breaks_the_contract_is_refused(embed, lie, faulty):
    faulty.plan = [("changed", lie)]
    with pytest.raises(ResponseInvalid):
        embed(faulty.url, [b"1"], retries=0)


@both
def test_too_many_images_are_sent_in_smaller_requests(embed, faulty):
    faulty.most_images = 3
    embeddings = embed(faulty.url, numbers(20), batch_size=8, in_flight=1)
    assert embeddings.indices.tolist() == list(range(20))
    assert max(seen for seen in faulty.seen if seen != 8) <= 4


@both
def test_a_body_that_is_too_large_is_halved(embed, faulty):
    faulty.plan = [("error", (413, "body_too_large"))] * 3
    embeddings = embed(faulty.url, numbers(8), batch_size=8, in_flight=1)
    assert embeddings.indices.tolist() == list(range(8))
    assert faulty.seen[:3] == [8, 4, 2]


@both
def test_images_are_parted_by_their_bytes_before_they_are_sent(embed, faulty):
    images = [b"x" * (9 * MEBI), b"y" * (9 * MEBI), b"z" * (17 * MEBI), b"1", b"2"]
    assert len(embed(faulty.url, images)) == 5
    assert sorted(faulty.seen) == [1, 1, 1, 2]


@both
def test_one_bad_image_costs_its_neighbours_nothing(embed, faulty):
    embeddings = embed(faulty.url, [b"1", b"bad", b"3"], batch_size=3)
    assert embeddings.indices.tolist() == [1, 3]
    (failure,) = embeddings.failures
    assert (failure.id, type(failure.error), failure.error.fix) == ("1", ImageUnreadable, "mend it")


@both
def test_no_more_requests_than_allowed_are_under_way(embed, faulty):
    faulty.seconds = 0.03
    embed(faulty.url, numbers(40), batch_size=1, in_flight=3)
    assert faulty.most_at_once == 3


@both
def test_refusals_make_the_client_ask_for_less_at_once(embed, faulty):
    faulty.seconds = 0.005
    faulty.plan = [("overloaded", 0.01)] * 12
    embed(faulty.url, numbers(30), batch_size=1, in_flight=8)
    assert len(faulty.seen) == 42


def test_an_abandoned_call_leaves_nothing_running(faulty):
    faulty.seconds = 0.05

    async def cut_short():
        async with AsyncClient(faulty.url, batch_size=1, in_flight=2) as client:
            task = asyncio.create_task(client.embed(numbers(100)))
            await asyncio.sleep(0.12)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            seen = len(faulty.seen)
            await asyncio.sleep(0.2)
            return seen

    seen = asyncio.run(cut_short())
    assert len(faulty.seen) <= seen + 2


def test_an_error_in_the_callers_own_generator_comes_out_and_ends_the_call(faulty):
    def images():
        yield b"1"
        raise RuntimeError("the caller's own")

    with Client(faulty.url, batch_size=1) as client, pytest.raises(RuntimeError, match="own"):
        client.embed(images())


@pytest.mark.parametrize(
    ("header", "seconds"), [("2", 2), ("0.5", 0.5), ("soon", None), ("-1", None), ("inf", None), (None, None)]
)
def test_retry_after_is_read_as_seconds(header, seconds):
    assert retry_after({} if header is None else {"retry-after": header}) == seconds


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (502, b"bad gateway", NotReady),
        (503, b"{}", NotReady),
        (429, b'{"detail": "slow down"}', Overloaded),
        (401, b"", Unauthorized),
        (500, b"oops", NonnegError),
        (418, b"", NonnegError),
        (302, b"", ResponseInvalid),
        (429, b'{"error": {"type": "brand_new", "message": "m"}}', Overloaded),
        (429, b'{"error": "only text"}', Overloaded),
    ],
)
def test_an_error_of_a_strangers_making_is_told_by_its_status(status, body, kind):
    error = error_of(status, {}, body)
    assert isinstance(error, kind)
    assert str(status) in error.message or error.message == "m"


def test_delays_grow_with_jitter_and_end():
    attempts = RetryPolicy(retries=5, overload_timeout=0, retry_delay=0.01)
    delays = [attempts.delay(NotReady("x")) for _ in range(6)]
    assert delays[5] is None
    for i, delay in enumerate(delays[:5]):
        assert 0.5 * 0.01 * 2**i <= delay <= 0.01 * 2**i


def test_a_very_long_retry_after_is_not_obeyed_forever():
    assert RetryPolicy(1, 100).delay(Overloaded("x", retry_after=86_400)) < 70


def test_an_address_that_never_answered_is_not_waited_for():
    unreachable = ConnectionFailed("x", field="url")
    assert RetryPolicy(9, 9, reached=False).delay(unreachable) is None
    assert RetryPolicy(9, 9, reached=True).delay(unreachable) is not None


def test_the_pace_halves_when_refused_and_recovers_one_by_one():
    pace = RateController(8)
    pace.refused()
    assert pace.window == 4
    for _ in range(5):
        pace.succeeded()
    assert pace.window == 5
    for _ in range(100):
        pace.succeeded()
    assert pace.window == 8
    for _ in range(10):
        pace.refused()
    assert pace.window == 1


def test_an_interrupt_ends_the_process_at_once_whatever_the_server_does(faulty):
    faulty.seconds = 30.0
    code = "import sys; from nonneg_client import Client; Client(sys.argv[1]).embed([b'1', b'2'], progress=False)"
    with subprocess.Popen([sys.executable, "-c", code, faulty.url], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 20
        while not faulty.seen:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=10)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in told


@pytest.fixture
def dribbling():
    """A server that sends one more piece every twentieth of a second, without an end."""
    stop = threading.Event()

    def answer(connection, head, piece):
        with connection:
            connection.recv(65536)
            connection.sendall(head)
            while not stop.wait(0.05):
                connection.sendall(piece)

    def serve(head, piece):
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=quietly, args=(connection, head, piece), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    def quietly(*arguments):
        with contextlib.suppress(OSError):
            answer(*arguments)

    sockets = []
    yield serve
    stop.set()
    for listening in sockets:
        listening.close()


OK = b"HTTP/1.1 200 OK\r\n"


@both
@pytest.mark.parametrize(
    ("head", "piece"),
    [(OK + b"Content-Length: 999999\r\n\r\n", b"{"), (OK, b"a: b\r\n"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
    ids=["body", "headers", "continue"],
)
def test_an_answer_that_dribbles_ends_with_the_time(embed, dribbling, head, piece):
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.5 s"):
        embed(dribbling(head, piece), [b"1"], timeout=0.5, retries=0)
    assert time.monotonic() - began < 10


@both
def test_a_request_that_is_taken_by_the_byte_ends_with_ten_times_the_time(embed):
    stop = threading.Event()

    def take(listening):
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            while not stop.wait(0.05):
                connection.recv(2**15)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        threading.Thread(target=take, args=(listening,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
            embed(f"http://127.0.0.1:{listening.getsockname()[1]}", [bytes(2**26)], timeout=0.3, retries=0)
        assert 2.5 < time.monotonic() - began < 20
        stop.set()


@both
def test_an_answer_that_is_too_large_is_not_gathered(embed, dribbling):
    endless = OK + b"Content-Length: 999999999999\r\n\r\n"
    with pytest.raises(ResponseInvalid, match="larger than 67108864 bytes"):
        embed(dribbling(endless, b"x" * 2**23), [b"1"], timeout=60, retries=0)


@both
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"dimensions": 1e999, "data": [], "model": "m", "fingerprint": "f", "normalized": true}',
        b'{"dimensions": 1000000000000000000, "data": [{"index": 0, "indices": [3], "values": [1]}], "model": "m", '
        b'"fingerprint": "f", "normalized": true}',
        b'{"dimensions": 9, "data": [{"index": 0, "indices": [1000000000000000000000000000000], "values": [1]}]}',
        b'{"dimensions": 9, "data": [7]}',
        b"null",
    ],
    ids=["deep", "infinite", "long", "far", "number", "null"],
)
def test_any_json_is_vectors_or_a_typed_error(embed, faulty, body):
    faulty.plan = [("garbage", body)]
    with pytest.raises(ResponseInvalid):
        embed(faulty.url, [b"1"], retries=0)


def test_deep_json_of_an_error_is_a_typed_error():
    assert isinstance(error_of(400, {}, b"[" * 200_000), NonnegError)
    assert error_of(400, {}, b'{"error": {"type": "image_unreadable", "message": "m", "fix": [1]}}').fix == "[1]"


def test_no_message_of_a_server_and_no_name_of_a_file_reaches_the_terminal_as_a_command(faulty, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "\x1b]0;PWNED\x07.jpg").write_text("bad")
    (tmp_path / "photos" / "0.jpg").write_text("0")
    (tmp_path / "photos" / "\x9b31m.jpg").write_text("1")
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(tmp_path / "photos"), "--url", faulty.url]
    failed = subprocess.run([*command, "-o", str(tmp_path / "x.npz")], capture_output=True, check=False)
    assert b"PWNED" in failed.stderr
    lines = subprocess.run([*command, "--batch-size", "1"], capture_output=True, check=False).stdout.decode()
    assert "\x9b" not in lines
    assert "\x9b31m.jpg" in [json.loads(line)["id"].rpartition("/")[2] for line in lines.splitlines()]
    faulty.plan = [("garbage", b"\x1b]0;PWNED\x07")] * 9
    message = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "NONNEG_RETRIES": "0"})
    for said in (failed.stdout + failed.stderr, message.stdout + message.stderr):
        assert b"\x1b" not in said
        assert b"\x07" not in said
