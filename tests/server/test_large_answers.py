"""Answers have a price, as images have: their size is bounded and reserved, and large ones are not made on the loop."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.api.route import PIXEL
from nonneg_server.pipeline import answer_forms, request_pipeline
from nonneg_server.requests.vectors import MOST_NUMBERS

pytestmark = pytest.mark.anyio
LENGTHS = [48] * 32  # the tiny model's width, as often as a request may ask for it


def asked(images: int, **parameters: Any) -> dict[str, Any]:
    return {"images": [PIXEL] * images, "dimensions": LENGTHS, **parameters}


async def test_lengths_times_images_times_dimensions_are_bounded(client_for: Callable[..., httpx.AsyncClient]) -> None:
    images = MOST_NUMBERS // sum(LENGTHS) + 1
    async with client_for(max_images=images, queue=images) as client:
        refused = await client.post("/embed", json=asked(images))
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["field"]) == (413, "too_large", "dimensions")
        assert (error["value"], error["limit"]) == (images * sum(LENGTHS), MOST_NUMBERS)
        assert f"at most {images - 1} at once" in error["fix"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {**asked(128), "format": "both"}),
        ("/shorten", {"vectors": [{"indices": [3], "values": [1.0]}] * 128, "dimensions": LENGTHS}),
    ],
)
async def test_a_large_answer_is_shortened_and_written_on_another_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    threads: set[str] = set()

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def note(*given: Any, **options: Any) -> Any:
            threads.add(threading.current_thread().name.partition("_")[0])
            return work(*given, **options)

        return note

    monkeypatch.setattr(request_pipeline, "shorten", noted(request_pipeline.shorten))
    monkeypatch.setattr(answer_forms, "record", noted(answer_forms.record))
    answer = await client.post(path, json=body)
    assert (answer.status_code, threads) == (200, {"large-body"})
    assert len(answer.json()["data"]) == 128
    threads.clear()
    one = {name: value[:1] if name in ("images", "vectors") else value for name, value in body.items()}
    assert (await client.post(path, json=one)).json()["data"][0] == answer.json()["data"][0]
    assert threads == {threading.current_thread().name}, "a small one is not worth the way there"


def upload_bytes(address: str) -> float:
    found = re.search(r"^nonneg_upload_bytes (\S+)$", httpx.get(f"{address}/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_an_answer_is_reserved_before_it_is_written_and_given_back(start: Callable, bundle: Bundle) -> None:
    flags = ("--model", str(bundle.path), "--upload-bytes", "2000000", "--drain", "0", "--cache", "1000000")
    with start(*flags) as (address, _):
        at, body = urlsplit(address), asked(100, format="both")
        with socket.create_connection((at.hostname, at.port)) as another:
            head = f"POST /embed HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Length: 1000000\r\n\r\n"
            another.sendall(head.encode() + bytes(900_000))
            until(lambda: upload_bytes(address) >= 900_000)
            refused = httpx.post(f"{address}/embed", json=body, timeout=60)
            error = refused.json()["error"]
            assert (refused.status_code, error["field"], error["limit"]) == (429, "upload_bytes", 2_000_000)
            assert error["value"] > 100 * sum(LENGTHS) * np.float32().itemsize + 900_000
            assert httpx.post(f"{address}/embed", json=asked(1), timeout=60).status_code == 200
        until(lambda: upload_bytes(address) == 0)
        answer = httpx.post(f"{address}/embed", json=body, timeout=60)
        assert answer.status_code == 200, "one alone may take more"
        until(lambda: upload_bytes(address) == 0)


@pytest.mark.slow
def test_an_answer_that_is_not_taken_stays_counted(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--drain", "0") as (address, _):
        at = urlsplit(address)
        content = httpx.Request("POST", address, json=asked(256, format="both")).content
        with socket.create_connection((at.hostname, at.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"POST /embed HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            lazy.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            lazy.recv(1)  # it is being sent
            assert upload_bytes(address) > 100_000
        until(lambda: upload_bytes(address) == 0)
