"""What a message says about installing works where it is printed, without an index that holds this package."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from nonneg_core.errors import MissingExtra
from nonneg_core.terminal import installing
from nonneg_core.terminal.installing import extra_hint, package_hint, requirements

ROOT = Path(__file__).parents[3]
METADATA = """Metadata-Version: 2.4
Name: nonneg
Version: 0.1.0
Requires-Dist: numpy>=1.26
Requires-Dist: nonneg[serving]; extra == 'server'
Requires-Dist: absent-runtime>=1.20; extra == 'server'
Requires-Dist: absent-loop>=0.21; (sys_platform != 'win32') and extra == 'serving'
Requires-Dist: numpy>=1.26; extra == 'serving'
Requires-Dist: torch>=2.6; extra == 'training'
Requires-Dist: nonneg[all,server]; extra == 'all'
"""


def installed_from(origin: dict[str, object], folder: Path) -> Path:
    """Write what pip leaves of an installation, and return the folder to look for it in."""
    record = folder / "nonneg-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(METADATA)
    (record / "direct_url.json").write_text(json.dumps(origin))
    return folder


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that came from a wheel: no clone, and an index need not hold its name."""
    origin = {"archive_info": {}, "url": "file:///gone/nonneg-0.1.0-py3-none-any.whl"}
    site = installed_from(origin, tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation from a clone in a folder with a space, and nothing else installed."""
    folder = tmp_path / "my clone $x"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    site = installed_from({"dir_info": {"editable": True}, "url": folder.as_uri()}, tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(site)])
    return folder


@pytest.mark.skipif(find_spec("pip") is None, reason="the command is for an environment with pip")
@pytest.mark.parametrize("extra", ["search", "scale", "server", "hub"])
def test_the_command_for_an_extra_runs_from_anywhere_without_an_index(extra: str, tmp_path: Path) -> None:
    """The test environment has all extras: pip must find that out from the command alone, with no index to ask."""
    asked = shlex.split(extra_hint(extra))
    assert asked[asked.index("-c") + 1] == str(ROOT / "constraints.txt")
    offline = ["--dry-run", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*asked, *offline], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_from_a_wheel_the_packages_are_named_that_are_missing(wheel: Path) -> None:
    asked = shlex.split(extra_hint("server"))
    assert asked[asked.index("install") + 1 :] == [
        "absent-runtime>=1.20",
        "absent-loop>=0.21; (sys_platform != 'win32')",
    ]
    assert not re.search(r"nonneg\b(?!\w)", " ".join(asked[asked.index("install") :]))


def test_from_a_wheel_it_is_said_that_torch_may_bring_cuda(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(wheel)])  # and nothing else is installed
    assert "CUDA" in extra_hint("training")


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed here")
def test_where_torch_is_installed_nothing_is_said_of_cuda() -> None:
    assert "CUDA" not in extra_hint("training")


def test_from_a_clone_it_is_said_where_torch_is_still_to_come(clone: Path) -> None:
    assert "CPU build" in extra_hint("training")
    assert "CUDA" not in extra_hint("server")


def test_an_extra_that_names_itself_is_followed_once(wheel: Path) -> None:
    assert requirements("all") == requirements("server")


def test_without_pip_the_environment_is_filled_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda name: None)
    monkeypatch.setattr(installing.shutil, "which", lambda name: None)
    asked = shlex.split(package_hint("timm"))
    assert asked[1:6] == ["-m", "pip", "--python", sys.executable, "install"]
    assert asked[0] != sys.executable
    monkeypatch.setattr(installing.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert shlex.split(package_hint("timm"))[:5] == ["uv", "pip", "install", "--python", sys.executable]


def test_a_path_with_spaces_reaches_pip_as_one_word(clone: Path) -> None:
    assert shlex.split(extra_hint("search"))[-2:] == ["-e", f"{clone}[search]"]


def test_a_command_whose_extra_is_missing_prints_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from nonneg_cli.table import main; main()"
    command = [sys.executable, "-c", code, "shorten", str(tmp_path / "a.parquet"), "-o", str(tmp_path / "b.npz")]
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    done = subprocess.run([*command, "--dimensions", "8"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Error: Parquet needs pyarrow\nFix:   {extra_hint('scale')}\n"


def test_no_message_names_an_installation_by_itself() -> None:
    """Every hint comes from one function; an index that holds no `nonneg` would answer with another package."""
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("client", "training", "export", "server")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"pip install \S*nonneg\[", line)
    ]
    assert named == []


def test_no_page_installs_from_an_index_that_need_not_have_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.*")]
    assert [page.name for page in pages if re.search(r"pip install \"?nonneg", page.read_text())] == []


def test_an_error_keeps_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    from nonneg_vectors.storage import parquet

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra) as caught:
        parquet.import_pyarrow()
    assert caught.value.fix == extra_hint("scale")
    assert os.fspath(ROOT) in caught.value.fix
