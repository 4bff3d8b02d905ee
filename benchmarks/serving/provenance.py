"""Where a number comes from: commit, machine, versions."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import onnxruntime
import PIL


def provenance() -> dict[str, str | int]:
    return {
        "commit": _commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {_processor()}, {platform.system()} {platform.machine()}",
        "load_before": os.getloadavg()[0].__round__(2),
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "pillow": PIL.__version__,
    }


def _commit() -> str:
    here = Path(__file__).parent
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True)
    return (head.stdout.strip() or "unknown") + ("+changes" if changed.stdout.strip() else "")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.split("\t", 1) for line in lines if "\t" in line)
    name = fields.get("model name", ":").partition(":")[2].strip()
    flags = fields.get("flags", "")
    special = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16") if f" {flag} " in f"{flags} "]
    return " ".join([name or "unnamed processor", *special])
