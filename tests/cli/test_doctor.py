from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import onnxruntime as ort
import pytest
from click.testing import CliRunner

from nonneg_cli import doctor as checks
from nonneg_cli.doctor import doctor, memory
from nonneg_core.terminal.installing import extra_hint
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return open_bundle()


def test_a_healthy_installation_has_no_bad_finding(bundle: Bundle) -> None:
    done = CliRunner().invoke(doctor, ["--model", str(bundle.path), "--json"])
    found = {finding["subject"]: finding for finding in json.loads(done.output)}
    assert done.exit_code == 0
    assert found["self-test"]["message"].startswith("cosine 1.0000")
    assert {"nonneg", "server", "onnxruntime", "cores", "model"} <= set(found)
    need = int(found["memory"]["message"].split()[0])  # that the page for operators sends people here for
    assert 50 < need < 1000


def test_the_memory_has_room_for_the_encoder_of_texts(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = int(memory(bundle).message.split()[0])
    monkeypatch.setattr("httpx.post", lambda *_, **__: None)
    assert int(memory(bundle).message.split()[0]) + 20 < whole  # its file alone has 22 MB


def test_a_bad_bundle_is_a_finding_with_a_fix_and_an_exit_code(tmp_path: Path) -> None:
    done = CliRunner().invoke(doctor, ["--model", str(tmp_path)])
    assert done.exit_code == 1
    assert "is not a bundle" in done.output
    assert "fix: point to a folder" in done.output


def test_a_light_install_is_whole_without_the_server_and_says_how_to_get_it(bundle: Bundle) -> None:
    """With every package of the extra hidden from the interpreter, the command still runs."""
    done = without(
        {"fastapi", "uvicorn", "orjson", "pydantic_settings", "python_multipart", "onnxruntime", "starlette"}, bundle
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "BAD" not in done.stdout
    assert "note  server       an extra that is not installed (without fastapi, uvicorn" in done.stdout
    assert f"fix: {extra_hint('server')}" in done.stdout
    assert "note  onnxruntime  not installed: it comes with the extras `local` and `server`" in done.stdout
    assert "ok    client       httpx " in done.stdout
    assert "verified" in done.stdout


@pytest.mark.parametrize(
    ("gone", "said"),
    [("orjson", "BAD   server       without orjson"), ("onnxruntime", "BAD   onnxruntime  not installed, and")],
)
def test_a_server_of_which_a_part_is_missing_is_broken(bundle: Bundle, gone: str, said: str) -> None:
    done = without({gone}, bundle)
    assert done.returncode == 1
    assert said in done.stdout
    assert "Traceback" not in done.stderr


def without(gone: set[str], bundle: Bundle) -> subprocess.CompletedProcess[str]:
    """`nonneg doctor` in an interpreter that has none of these packages."""
    hide = (
        "import sys, importlib.metadata as m; real = m.version\n"
        f"gone = {gone!r}\n"
        "for name in gone: sys.modules[name] = None\n"
        "def version(name):\n"
        "    if name.replace('-', '_').removesuffix('_gpu') in gone: raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from nonneg_cli.table import main\n"
        f"sys.argv = ['nonneg', 'doctor', '--model', {str(bundle.path)!r}]\n"
        "main()\n"
    )
    return subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, timeout=60, check=False)


def test_it_looks_for_a_package_of_every_extra() -> None:
    """But for those that are made of others; one whose own package is absent is not called whole."""
    whole = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = whole["project"]["optional-dependencies"]
    assert set(extras) - set(checks.EXTRAS) == {"local", "gpu", "serving", "all"}
    assert set(checks.EXTRAS["search"]) == {requirement.split(">")[0] for requirement in extras["search"]}


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_too_few_open_files_are_a_bad_finding_and_no_start(bundle: Bundle) -> None:
    command = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); "
    command += "from nonneg_cli.table import main; main()"
    for arguments in (["doctor", "--model", str(bundle.path)], ["serve", "--port", "0", "--model", str(bundle.path)]):
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        assert "this process may open 100 files, a server needs 160 or more" in done.stdout + done.stderr
        assert "raise the limit: ulimit -n" in done.stdout + done.stderr


def test_two_builds_of_the_runtime_are_a_bad_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for build in ("onnxruntime", "onnxruntime_gpu"):
        (tmp_path / f"{build}-1.0.dist-info").mkdir()
        (tmp_path / f"{build}-1.0.dist-info" / "METADATA").write_text(f"Name: {build}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "overwrite each other" in next(iter(checks.runtime())).message


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="there is CUDA here")
def test_a_gpu_that_cannot_be_used_is_a_bad_finding_with_a_fix(bundle: Bundle) -> None:
    found = checks.answered("gpu", bundle, "cuda")
    assert (found.subject, found.verdict) == ("gpu", "bad")
    assert "CUDAExecutionProvider was asked for" in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("torch", "torchvision", "mixed"),
    [
        ("2.13.0+cpu", "0.28.0+cpu", False),
        ("2.13.0", "0.28.0", False),
        ("2.13.0+cpu", "0.28.0", True),
        ("2.13.0", None, False),
    ],
)
def test_a_torchvision_of_another_build_than_torch_is_a_note(
    torch: str, torchvision: str | None, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "installed", {"torch": torch, "torchvision": torchvision}.get)
    notes = list(checks.torch_builds())
    assert [note.message for note in notes] == ["torch 2.13.0+cpu and torchvision 0.28.0 are of two builds"] * mixed
