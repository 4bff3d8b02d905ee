"""The ways of CONTRIBUTING, a request's and a command's, against a real request and a real run of the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STATION = re.compile(r"`([\w/]+\.py):(\w+)`")

# Notes the first call of every function of ours, on all threads: file, qualified name, in order.
NOTING = """
import json, os, sys, threading
calls = {}
def note(frame, event, _):
    if event == "call" and "/nonneg_" in frame.f_code.co_filename:
        calls.setdefault((frame.f_code.co_filename, frame.f_code.co_qualname))
threading.setprofile(note)
sys.setprofile(note)
"""
SERVER = """
import socket, time, urllib.request
from pathlib import Path
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
address, sent = f"http://127.0.0.1:{port}", sys.argv[1]
def ask():
    sys.setprofile(None)
    while True:
        try:
            urllib.request.urlopen(f"{address}/readyz").close()
            break
        except OSError:
            time.sleep(0.05)
    calls.clear()
    headers = {"content-type": "image/jpeg", "x-api-key": "k" * 20}
    photo = Path(sent).read_bytes()
    urllib.request.urlopen(urllib.request.Request(f"{address}/embed", photo, headers)).read()
    print(json.dumps([address, list(calls)]), flush=True)
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=ask, daemon=True).start()
sys.argv[1:] = ["serve", "--model", "photo-fast", "--port", str(port), "--api-key", "k" * 20]
from nonneg_cli.table import main
main()
"""
COMMAND = """
import atexit
atexit.register(lambda: print(json.dumps(list(calls))))
from nonneg_cli.table import main
main()
"""

Calls = list[tuple[str, str]]


def stations(title: str, command: str, home: str) -> list[tuple[str, str]]:
    """Return the functions and classes that a way names, in its order, with their files from the root."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0].partition(f"{command}")[2]
    numbered = re.split(r"\n\n(?!1\.)", section.partition("\n1. ")[2])[0]
    named = STATION.findall(numbered)
    return [(path if (ROOT / path).exists() else f"{home}/{path}", name) for path, name in named]


def is_one(called: str, name: str) -> bool:
    """Return whether a call is of this function or method, or of a method of this class: not of a class's body."""
    return called.startswith(f"{name}.") if name[0].isupper() else called.split(".")[-1] == name


def assert_in_order(way: list[tuple[str, str]], calls: Calls) -> None:
    """Every station is called, none before the one that the page names before it."""
    places = []
    for path, name in way:
        firsts = [i for i, (file, called) in enumerate(calls) if file.endswith(f"/{path}") and is_one(called, name)]
        assert firsts, f"{path}:{name} is not called"
        places.append((firsts[0], f"{path}:{name}"))
    for (one, before), (other, after) in pairwise(places):
        assert one < other, f"{after} is called before {before}"


@pytest.fixture(scope="module")
def photo(photos: Path) -> Path:
    return next(iter(sorted(photos.rglob("*.jpg"))))


@pytest.fixture(scope="module")
def served(photo: Path) -> Iterator[tuple[str, Calls]]:
    """A server that has answered one request, its address, and what was called meanwhile."""
    line = [sys.executable, "-c", NOTING + SERVER, str(photo)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = next(text for text in process.stdout if text.startswith("["))
        address, calls = json.loads(output)
        yield address, calls
        process.kill()


def test_a_request_takes_the_way_that_the_guide_says(served: tuple[str, Calls]) -> None:
    way = stations("The path of a request", "POST /embed", "server/nonneg_server")
    assert len(way) >= 12
    assert_in_order(way, served[1])


def test_embedding_a_folder_takes_the_way_that_the_guide_says(
    served: tuple[str, Calls], photo: Path, tmp_path: Path
) -> None:
    way = stations("The path of a command", "nonneg embed", "client/nonneg_client")
    assert len(way) >= 12
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(photo.read_bytes())
    line = ["embed", str(tmp_path / "photos"), "-o", str(tmp_path / "v.npz"), "--url", served[0]]
    env = {**os.environ, "NONNEG_API_KEY": "k" * 20}
    run = subprocess.run(
        [sys.executable, "-c", NOTING + COMMAND, *line], env=env, capture_output=True, text=True, check=True
    )
    assert_in_order(way, json.loads(run.stdout.splitlines()[-1]))
