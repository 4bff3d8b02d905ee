"""Fuzzing: mutated images and requests, so many or for so long, each within bounds on time, memory and answer.

    python tests/fuzzing/run.py [images routes] [--seed 1] [--inputs 2000 | --minutes 60] [--from N] [--keep FOLDER]

An input is known by its seed and number. They are tried in a process of their own: one that crashes or hangs there is
found by its number, written to the folder, and the rest goes on. Where atheris is installed, half of the minutes for
images go to inputs that are chosen by what they reach (`guided.py`). Prints what became of how many, then one JSON
line; exits with 1 if a bound was broken.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import closing, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bounds import Broken

HANG = 120.0  # seconds after which an input is taken for one that never ends
TARGETS = ("images", "routes")


def attempts(target: str, seed: int, start: int, stop: float, told: Connection) -> None:
    """The side that tries: (number, outcome, whether a bound was broken) for each input, until it is time."""
    made = target_of(target, seed)
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where libraries tell of every broken file
    with closing(made), suppress(BrokenPipeError):  # time is up: the other side has gone
        told.send(("begun", "", False))
        number = start
        while number < stop or stop < 0:
            told.send((number, *outcome_of(made, number)))
            number += 1


def outcome_of(made: Any, number: int) -> tuple[str, bool]:
    """What became of an input, and whether it broke a bound."""
    try:
        return made.attempt(made.make(number)), False
    except Broken as error:
        return str(error), True
    except Exception:
        return traceback.format_exc(), True


def target_of(target: str, seed: int) -> Any:
    if target == "images":
        from images import Images

        return Images(seed)
    from routes import Routes

    return Routes(seed)


def fuzz(target: str, seed: int, inputs: int | None, until: float, start: int, keep: Path) -> dict[str, Any]:
    """Try them all; what became of them, and the findings."""
    outcomes: Counter[str] = Counter()
    findings: list[dict[str, Any]] = []
    number, began = start, time.monotonic()
    stop = -1 if inputs is None else start + inputs
    while (stop < 0 or number < stop) and time.monotonic() < until and len(findings) < 20:
        number = _one_process(target, seed, number, stop, until, outcomes, findings)
    for finding in findings:
        _keep(target, seed, finding, keep)
    seconds = round(time.monotonic() - began)
    return {"target": target, "seed": seed, "inputs": number - start, "seconds": seconds, "outcomes": dict(outcomes),
            "findings": findings}  # fmt: skip


def _one_process(
    target: str,
    seed: int,
    start: int,
    stop: float,
    until: float,
    outcomes: Counter[str],
    findings: list[dict[str, Any]],
) -> int:
    """Go on until it is done, out of time, or has crashed or hung; the next number."""
    context = multiprocessing.get_context("spawn")
    hearing, telling = context.Pipe(duplex=False)
    process = context.Process(target=attempts, args=(target, seed, start, stop, telling))
    process.start()
    telling.close()
    number = start
    try:
        while time.monotonic() < until:
            if not hearing.poll(HANG):
                findings.append({"number": number, "what": f"hangs for {HANG:g} s"})
                return number + 1
            try:
                told, outcome, broken = hearing.recv()
            except EOFError:
                process.join(30)
                if stop < 0 or number < stop:
                    findings.append({"number": number, "what": f"crashes: exit {process.exitcode}"})
                    return number + 1
                return number
            if told == "begun":
                continue
            outcomes["broken" if broken else outcome] += 1
            if broken:
                findings.append({"number": told, "what": outcome[:2000]})
            number = told + 1
        return number
    finally:
        hearing.close()
        process.terminate() if target == "images" else process.join(30)
        process.join(30)
        process.kill()


def guided(seed: int, minutes: float, keep: Path) -> dict[str, Any]:
    """Inputs chosen by what they reach, until the first that breaks a bound."""
    script = str(Path(__file__).with_name("guided.py"))
    command = [sys.executable, script, str(seed), str(keep), f"-max_total_time={max(1, round(60 * minutes))}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    count = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    findings = [{"number": 0, "what": (done.stdout + done.stderr)[-2000:]}] if done.returncode else []
    return {"target": "images, guided", "seed": seed, "inputs": int(count[1]) if count else 0,
            "seconds": round(60 * minutes), "outcomes": {}, "findings": findings}  # fmt: skip


def _keep(target: str, seed: int, finding: dict[str, Any], folder: Path) -> None:
    """Write the input beside the others; the number finds it again, too."""
    folder.mkdir(parents=True, exist_ok=True)
    if target == "images":
        file = folder / f"{target}-{seed}-{finding['number']}"
        file.write_bytes(target_of(target, seed).make(finding["number"]))
        finding["file"] = str(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=" ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "nonneg-fuzz")
    asked = parser.parse_args()
    results = []
    for target in asked.targets:
        minutes = asked.minutes / len(asked.targets)
        if target == "images" and asked.inputs is None and find_spec("atheris") is not None:
            minutes /= 2
            results.append(guided(asked.seed, minutes, asked.keep))
            print(f"images, guided: {results[-1]['inputs']} inputs, {len(results[-1]['findings'])} found")
        until = time.monotonic() + 60 * minutes
        results.append(fuzz(target, asked.seed, asked.inputs, until, asked.start, asked.keep))
        for outcome, count in sorted(results[-1]["outcomes"].items()):
            print(f"{target:8} {outcome:20} {count}")
        for finding in results[-1]["findings"]:
            print(f"{target:8} FOUND {finding}")
    print(json.dumps(results))
    sys.exit(any(result["findings"] for result in results))


if __name__ == "__main__":
    main()
