#!/usr/bin/env python3
"""Make a virtual environment with nonneg in it, once, and print where it is.

    environment.py NAME [--extras server,export] [--group dev,nightly]

The environment is NAME in the checkout, or in the user's cache where the checkout cannot be written. It is made again
when the dependencies in pyproject.toml, constraints.txt, the extras or the Python change, and found ready otherwise.
Needs Python and pip, nothing else; two callers at once wait for each other.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--extras", default="")
    parser.add_argument("--group", default="")
    asked = parser.parse_args()
    env = home() / asked.name
    stamp = env / "complete"
    wanted = state(asked.extras, asked.group)
    if not is_ready(stamp, wanted):
        with Path(f"{env}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_ready(stamp, wanted):  # another process may have made it during the wait
                make(env, asked.extras, asked.group)
                stamp.write_text(wanted)
    print(env)


def home() -> Path:
    """The checkout, or a folder of this checkout's own in the user's cache."""
    if os.access(ROOT, os.W_OK):
        return ROOT
    name = "nonneg-" + hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    asked = os.environ.get("XDG_CACHE_HOME")
    places = [Path(asked)] if asked else []
    places += [Path(os.environ.get("HOME", "/nonexistent")) / ".cache"]
    for place in [*places, Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"]:
        try:
            folder = place / name
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    sys.exit(f"no place to write: neither {ROOT} nor a cache folder; set XDG_CACHE_HOME")


def state(extras: str, group: str) -> str:
    """What the environment depends on, as one digest."""
    parts = [json.dumps(installed()).encode(), (ROOT / "constraints.txt").read_bytes()]
    parts += [f"{ROOT}|{extras}|{group}|{sys.version}".encode(), Path(__file__).read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def installed() -> list[object]:
    """What pip reads of pyproject.toml: the settings of tools do not change an environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [project.get(part) for part in ("build-system", "project", "dependency-groups")] + [
        project.get("tool", {}).get("hatch")
    ]


def is_ready(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def make(env: Path, extras: str, group: str) -> None:
    """The environment from nothing; where the system leaves ensurepip out, it has no pip and is filled from here."""
    print(f"nonneg: making {env} (once; a few minutes at most)", file=sys.stderr)
    python = outside(env)
    shutil.rmtree(env, ignore_errors=True)
    run([python, "-m", "venv", *([] if find_spec("ensurepip") else ["--without-pip"]), str(env)])
    pip = [python, "-m", "pip", "--python", str(env / "bin" / "python")]
    constraints = str(ROOT / "constraints.txt")
    packages = ["-e", f"{ROOT}[{extras}]" if extras else str(ROOT), *(requirements(group) if group else [])]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    # For what pip installs to build our wheel; as an address, since pip splits this variable at spaces.
    os.environ["PIP_CONSTRAINT"] = os.environ["PIP_BUILD_CONSTRAINT"] = Path(constraints).as_uri()
    run([*pip, "install", *quiet, "-c", constraints, *packages])


def outside(env: Path) -> str:
    """This Python, or the one that it came from where it lies in the environment, as in a shell that activated it."""
    inside = Path(sys.prefix).resolve() == env.resolve()
    return str(getattr(sys, "_base_executable", sys.executable)) if inside else sys.executable


def requirements(group: str) -> list[str]:
    """Dependency groups of pyproject.toml, joined by commas; pip itself reads them only since 25.1."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["dependency-groups"]
    return [package for name in group.split(",") for package in groups[name]]


def run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=sys.stderr, check=False)  # our own output is the environment's path
    if done.returncode:
        sys.exit(f"nonneg: this failed, see above: {' '.join(command)}")


if __name__ == "__main__":
    main()
