"""The light install: what `pip install nonneg` puts on a disk, and what importing it costs.

    python benchmarks/client_light.py

Makes an environment in a temporary folder and installs this tree into it. Prints a table, then one JSON line.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

ROOT = Path(__file__).parent.parent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        python = Path(folder) / "bin" / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", str(ROOT)]
        subprocess.run(install, check=True)
        (packages,) = Path(folder).glob("lib/python*/site-packages")
        sizes = {entry.name: megabytes(entry) for entry in packages.iterdir()}
        imports = {
            code: milliseconds(python, code) for code in ("import nonneg_client", "from nonneg_client import Client")
        }
    ours = sum(size for name, size in sizes.items() if name.startswith("nonneg"))
    print(f"{'with its dependencies':28} {sum(sizes.values()):7.1f} MB, of which nonneg {ours:.1f} MB")
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:8]:
        print(f"  {name:26} {size:7.1f} MB")
    for code, time in imports.items():
        print(f"{code:36} {time:6.1f} ms of processor time, above an empty interpreter")
    print(
        json.dumps(
            {"megabytes": round(sum(sizes.values()), 1), "nonneg": round(ours, 1), "ms": imports, **provenance()}
        )
    )


def megabytes(path: Path) -> float:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def milliseconds(python: Path, code: str) -> float:
    def once(statement: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([python, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return round(min(once(code) for _ in range(9)) - min(once("pass") for _ in range(9)), 1)


if __name__ == "__main__":
    main()
