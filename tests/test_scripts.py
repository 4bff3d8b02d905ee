"""The newcomer's commands: they work from any folder, twice, and for a user who may not write to the checkout."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "scripts"
PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")  # a newcomer's: with pip, outside any environment


def environment(root: Path, *arguments: str, python: str = PYTHON, **extra: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **extra}
    command = [python, str(root / "scripts" / "environment.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=280, check=False, cwd="/")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project small enough to install in a second, with this project's own scripts."""
    root = tmp_path / "a checkout with spaces"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts" / "environment.py").write_bytes((SCRIPTS / "environment.py").read_bytes())
    (root / "constraints.txt").write_text("")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "tiny"\n'
        'version = "1"\n[dependency-groups]\nnone = []\n'
    )
    (root / "backend.py").write_text(BACKEND)
    return root


BACKEND = '''
"""A build backend that needs nothing from anywhere: an empty wheel."""
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    return name

build_wheel = build_editable
'''


def test_an_environment_is_made_once_and_then_found_at_once(checkout: Path) -> None:
    first = environment(checkout, ".venv")
    assert first.returncode == 0, first.stderr
    env = Path(first.stdout.strip())
    assert env == checkout / ".venv"
    assert (env / "bin" / "python").exists()
    (env / "left over").touch()
    project = checkout / "pyproject.toml"
    project.write_text(project.read_text() + "[tool.ruff]\nline-length = 88\n")  # changes nothing that is installed
    again = environment(checkout, ".venv")
    assert again.stdout == first.stdout
    assert again.stderr == ""
    assert (env / "left over").exists()


@pytest.mark.nightly
def test_a_changed_requirement_makes_it_anew_and_an_unfinished_one_is_not_trusted(checkout: Path) -> None:
    env = Path(environment(checkout, ".venv").stdout.strip())
    (env / "left over").touch()
    (checkout / "constraints.txt").write_text("# changed\n")
    inside = environment(checkout, ".venv", python=str(env / "bin" / "python"))  # as in a shell that activated it
    assert inside.returncode == 0, inside.stderr
    assert not (env / "left over").exists()
    (env / "complete").unlink()
    (env / "bin" / "python").unlink()
    assert environment(checkout, ".venv").returncode == 0
    assert (env / "bin" / "python").exists()


@pytest.mark.nightly
def test_a_failed_install_says_so_and_is_not_taken_for_ready(checkout: Path) -> None:
    (checkout / "backend.py").write_text(
        "def build_editable(*a, **k): raise SystemExit('no')\nbuild_wheel = build_editable\n"
    )
    failed = environment(checkout, ".venv")
    assert failed.returncode != 0
    assert "this failed, see above" in failed.stderr
    assert not (checkout / ".venv" / "complete").exists()


def test_a_checkout_that_cannot_be_written_uses_the_cache_of_an_ordinary_user(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as place:  # not pytest's folder, which it keeps from other users
        cache = Path(place, "cache")
        cache.mkdir()
        if os.getuid() != 0:
            checkout.chmod(0o555)
            done = environment(checkout, ".venv", XDG_CACHE_HOME=str(cache))
            checkout.chmod(0o755)
        else:
            Path(place).chmod(0o755)
            cache.chmod(0o777)
            copy = shutil.copytree(checkout, Path(place, checkout.name))
            ordinary = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
            env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache)}
            command = [python_for_anyone(ordinary), str(copy / "scripts" / "environment.py"), ".venv"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=200, check=False, env=env, **ordinary
            )
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).is_relative_to(cache)


def python_for_anyone(user: dict[str, Any]) -> str:
    """A Python with pip that another user may run: root's own often lies in a closed home."""
    for python in (PYTHON, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [python, "-c", "import pip, sys, venv; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(check, capture_output=True, check=False, **user).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("no Python here that another user may run")


def test_the_fast_suite_leaves_out_what_is_slow_and_what_is_for_the_night() -> None:
    made = runpy.run_path(str(SCRIPTS / "environment.py"))
    if not made["is_ready"](ROOT / ".venv-test" / "complete", made["state"]("all", "dev")):
        pytest.skip("scripts/test would make its environment again, under the tests that run in it")
    file = "tests/client/bulk/test_on_ray.py"
    command = [SCRIPTS / "test", "--fast", "--numprocesses", "0", "--collect-only", "-q", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "::test_" in done.stdout
    assert "is_lost" not in done.stdout
    assert "one_is_killed" not in done.stdout


@pytest.mark.parametrize("name", ["serve", "test", "check", "lock", "python", "fuzz", "nightly"])
def test_every_script_is_executable_and_parses(name: str) -> None:
    script = SCRIPTS / name
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_the_first_script_installs_what_search_and_the_studio_need() -> None:
    (extras,) = re.findall(r"--extras (\S+?)\)", (SCRIPTS / "serve").read_text())
    assert {"server", "search"} <= set(extras.split(","))


def test_the_python_finder_refuses_an_old_python_with_a_clear_word(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    (tmp_path / "bash").symlink_to("/bin/bash")
    done = subprocess.run(
        ["/bin/bash", str(SCRIPTS / "python"), "-V"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
