"""Run `nonneg` with the event loop's thread watched: `blocking_calls.py REPORT ARGUMENTS`.

Every call on that thread that may wait for a disk, a name server, another thread or the clock is written to REPORT,
once a place, with the functions it was made from: one line of JSON each. What is made in `ALLOWED` is not.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import subprocess
import sys
import threading
from types import CodeType, FrameType
from typing import Any

MODULES = {"time": {"sleep"}, "_sqlite3": None, "_posixsubprocess": None, "select": None}
POSIX = {
    "open", "stat", "lstat", "listdir", "scandir", "rename", "replace", "remove", "unlink", "mkdir", "rmdir", "access",
    "readlink", "fsync", "system", "waitpid", "truncate", "statvfs",
}  # fmt: skip
BUILTINS = {"open", "open_code", "FileIO", "getaddrinfo", "gethostbyname", "gethostbyaddr", "getfqdn"}
METHODS = {"FileIO.read", "FileIO.readall", "FileIO.write", "BufferedReader.read", "BufferedWriter.flush"}
WAITS: dict[CodeType, str] = {
    function.__code__: name
    for name, function in {
        "Thread.join": threading.Thread.join, "Event.wait": threading.Event.wait,
        "Condition.wait": threading.Condition.wait, "Future.result": concurrent.futures.Future.result,
        "Popen.wait": subprocess.Popen.wait,
    }.items()
}  # fmt: skip
ALLOWED = {
    ("process.py", "_reload"): "SIGHUP: keys and certificate, two small files",
    ("<frozen importlib._bootstrap>", "_find_and_load"): "a module's first use",
    ("linecache.py", "updatecache"): "a traceback for the log",
    ("threading.py", "start"): "a thread's start, which its first instruction ends",
    ("process_collector.py", "collect"): "/metrics reads /proc, which is memory",
    ("asyncio/futures.py", "_copy_future_state"): "the result of a future that is done",
    ("concurrent/futures/thread.py", "_adjust_thread_count"): "waits for 0 s",
    ("asyncio/runners.py", "close"): "all requests are answered",
}


class Watch:
    """What the thread calls that may block."""

    def __init__(self, report: str) -> None:
        self._report = report
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            name = blocking(arg)
        elif event == "call":
            name = WAITS.get(frame.f_code)
        else:
            return
        if name is not None and asyncio._get_running_loop() is not None:
            self._note(name, frame)

    def _note(self, name: str, frame: FrameType) -> None:
        stack, found = [], frame
        while found is not None:
            code = found.f_code
            if any(code.co_filename.endswith(file) and code.co_name == function for file, function in ALLOWED):
                return
            stack.append(f"{code.co_filename}:{found.f_lineno} {code.co_name}")
            found = found.f_back  # type: ignore[assignment]
        if (name, stack[0]) not in self._seen:
            self._seen.add((name, stack[0]))
            sys.setprofile(None)
            with open(self._report, "a") as file:  # noqa: PTH123
                file.write(json.dumps({"call": name, "stack": stack[:8]}) + "\n")
            sys.setprofile(self)


def blocking(function: Any) -> str | None:
    """The function's name if it may block."""
    module, name = getattr(function, "__module__", None), function.__qualname__
    if module is None and (owner := getattr(function, "__self__", None)) is not None:  # a method
        module = type(owner).__module__
    if module in ("posix", "nt"):
        return name if name in POSIX else None
    if module in MODULES:
        names = MODULES[module]
        return name if names is None or name in names else None
    if module == "sqlite3" or name in METHODS:
        return f"{module}.{name}"
    return name if name in BUILTINS else None


def main() -> None:
    report, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    from nonneg_cli.table import main as command
    from nonneg_server.startup.server_process import Process

    startup = Process.startup

    async def watched(self: Process, sockets: Any = None) -> None:
        await startup(self, sockets)
        sys.setprofile(Watch(report))

    Process.startup = watched  # type: ignore[method-assign]
    command()


if __name__ == "__main__":
    main()
