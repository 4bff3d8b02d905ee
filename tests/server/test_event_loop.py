"""The event loop waits for no disk, name server, thread or clock: a real server, watched by `blocking_calls`."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("blocking_calls.py")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reported(report: Path) -> list[str]:
    return [line["call"] for line in map(json.loads, report.read_text().splitlines())] if report.exists() else []


def test_no_route_makes_the_loop_wait(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    report, keys = tmp_path / "report", tmp_path / "keys"
    keys.write_text("test sha256:" + hashlib.sha256(b"a-key-for-the-test-1").hexdigest() + "\n")
    key = {"x-api-key": "a-key-for-the-test-1"}
    flags = ["--model", str(bundle.path), "--drain", "0", "--api-key-file", str(keys), "--manage"]
    flags += [
        "--url-host",
        "localhost:9",
        "--cache-dir",
        str(tmp_path / "cache"),
        "--log-format",
        "json",
        "--rate",
        "1e6",
    ]
    with start(*flags, command=(str(SCRIPT), str(report))) as (address, process):
        cases = loaded("test_recorded").CASES
        with httpx.Client(base_url=address, timeout=60) as client:
            for turn in range(2):  # what is imported at first use, and what is in the cache
                for case in cases.values():
                    given = {"method": "POST", **case}
                    client.request(url=given.pop("path"), **{**given, "headers": {**given.get("headers", {}), **key}})
                for path in ("/metrics", "/docs", "/openapi.json", "/models/tiny/dimensions/0/examples/0"):
                    client.get(path, headers=key)
                links = {"images": ["http://localhost:9/a.png", "http://xn--/"]}
                assert client.post("/embed", json=links, headers=key).status_code in (200, 422)
                assert client.post("/embed", content=b"x").status_code == 401
                for change in ("unload", "load"):
                    client.post(f"/v2/repository/models/tiny/{change}", json={}, headers=key)
                if not turn:
                    process.send_signal(signal.SIGHUP)
        assert process.poll() is None
    found = report.read_text() if report.exists() else ""
    assert not found, found


def test_the_watch_sees_what_waits(tmp_path: Path) -> None:
    module, report = loaded("blocking_calls"), tmp_path / "report"
    held = sqlite3.connect(tmp_path / "a.sqlite", check_same_thread=False)

    async def waits() -> None:
        sys.setprofile(module.Watch(str(report)))
        time.sleep(0)
        threading.Event().wait(0)
        (tmp_path / "a").exists()
        with (tmp_path / "b").open("w") as file:
            file.write("c")
        os.listdir(tmp_path)  # noqa: PTH208
        held.execute("select 1")
        sys.setprofile(None)

    thread = threading.Thread(target=lambda: asyncio.run(waits()))
    thread.start()
    thread.join()
    held.close()
    seen = reported(report)
    for call in ("sleep", "Event.wait", "stat", "listdir"):
        assert call in seen, seen
    assert any("open" in call for call in seen), seen
    assert any("execute" in call for call in seen), seen
