"""The results of a study: one JSON file a run, sealed by a digest, used only where settings are the wanted ones."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid, DigestMismatch
from nonneg_core.files.atomic import atomic_write
from nonneg_core.version import __version__

FORMAT = "nonneg-study-1"
Figure = float | list[float] | None


@dataclass(frozen=True)
class Result:
    """What one run came to."""

    study: str
    variant: str
    seed: int
    settings: dict[str, Any]
    measure: dict[str, Any]
    figures: dict[str, Figure]
    seconds: float
    machine: str
    commit: str
    format: str = field(default=FORMAT)


def same(recorded: dict[str, Any], expected: dict[str, Any], defaults: dict[str, Any]) -> bool:
    """Return whether two records mean the same run.

    A setting that did not exist yet when the run was made counts as its default, which changes nothing; one that exists
    no longer does not count.
    """
    return all(recorded.get(name, defaults.get(name)) == value for name, value in expected.items())


def path_of(folder: Path, variant: str, seed: int) -> Path:
    """Return where a run's result lies."""
    return folder / f"{variant}-{seed}.json"


def write_result(folder: Path, result: Result) -> None:
    """Seal a result and put it away, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    record = asdict(result)
    record["digest"] = _digest(record)
    with atomic_write(path_of(folder, result.variant, result.seed)) as path:
        path.write_text(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read_result(path: Path) -> Result:
    """Return a result as it was sealed; one that was edited is refused."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        sealed = record.pop("digest")
        result = Result(**record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DigestMismatch(
            f"{path} is not a result of a study ({error})",
            fix="remove it; `python -m research.study run` makes it again",
        ) from error
    if sealed != _digest(record):
        raise DigestMismatch(
            f"{path} was edited: its digest does not fit its content",
            fix="restore it, or remove it and run the study again",
            value=str(path),
        )
    return result


def read_results(folder: Path) -> list[Result]:
    """Return every result in a study's folder; a file under another run's name is refused: it would count twice."""
    results = []
    for path in sorted(folder.glob("*.json")):
        result = read_result(path)
        if path != path_of(folder, result.variant, result.seed):
            raise DataInvalid(
                f"{path} is the result of {result.variant}, seed {result.seed}",
                fix=f"remove it, or call it {path_of(folder, result.variant, result.seed).name} if there is none",
                value=str(path),
            )
        results.append(result)
    return results


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def this_machine() -> str:
    """Return the processor, and how many of its cores may be used."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:  # another system
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


@cache
def this_commit(here: Path = Path(__file__).parent) -> str:
    """Return the commit of the clone this code lies in, with a + if it was changed since; else the version.

    It is read once: a process runs the code that it began with, whatever becomes of the clone meanwhile.
    """
    try:
        commands = [
            ("rev-parse", "--short=10", "HEAD"),
            ("status", "--porcelain", "--untracked-files=no", "--", ":(top)*.py"),
        ]
        answers = [
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in commands
        ]
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return answers[0] + ("+" if answers[1] else "")
