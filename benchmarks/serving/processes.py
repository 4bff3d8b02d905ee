"""What a server costs, read from /proc: CPU seconds and proportional memory of it and all its children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import load

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """A running server: where it answers, who it is, and how long it took to answer the first image."""

    url: str
    process: subprocess.Popen[bytes]
    cold_start: float

    def tree(self) -> list[int]:
        return sorted(_descendants(self.process.pid))

    def cpu_seconds(self) -> float:
        return sum(_cpu(pid) for pid in self.tree())

    def pss_mb(self) -> float:
        return round(sum(_memory(pid, "Pss") for pid in self.tree()) / 1024, 1)

    def own_mb(self) -> float:
        """Return the megabytes without the pages of files, of which others may have a share."""
        return round(sum(_memory(pid, "Pss_Anon") for pid in self.tree()) / 1024, 2)


@contextmanager
def running(
    command: list[str], path: str, body: bytes, *, env: Mapping[str, str], cwd: Path, log: Path, timeout: float = 120
) -> Iterator[Server]:
    """Start `command` with PORT in its environment, wait for the first answered image, end it and its children."""
    port = free_port()
    filled = [part.replace("{port}", str(port)) for part in command]
    url = f"http://127.0.0.1:{port}{path}"
    start = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(
            filled,
            cwd=cwd,
            env={**os.environ, **env, "PORT": str(port)},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        _await_first(process, url, body, start + timeout, log)
        yield Server(url, process, round(time.perf_counter() - start, 2))
    finally:
        end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_first(process: subprocess.Popen[bytes], url: str, body: bytes, until: float, log: Path) -> None:
    while time.perf_counter() < until:
        if process.poll() is not None:
            break
        try:
            if load.ask_once(url, body) == "200":
                return
        except OSError:
            pass
        time.sleep(0.01)
    raise RuntimeError(f"no answer from {url}; its output ends:\n{log.read_text(errors='replace')[-3000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop it politely, then whatever it leaves behind: only what runs in sessions that are not this process's own."""
    family = _descendants(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    for pid in family | _of_session(process.pid):
        if pid != os.getpid() and _session(pid) != os.getsid(0):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait(10)


def _of_session(leader: int) -> set[int]:
    """Return all that run in the session this process began, adopted or not."""
    return {
        pid for pid in (int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit()) if _session(pid) == leader
    }


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = {root}, [root]
    while todo:
        for child in children.get(todo.pop(), []):
            found.add(child)
            todo.append(child)
    return found


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def _memory(pid: int, kind: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")), 0)
