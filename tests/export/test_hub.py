"""`push` and `pull` through the real huggingface_hub, against a server here that speaks the hub's few endpoints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback_hub import Hub

from nonneg_runtime.bundle.bundle_folder import DEFAULT, open_bundle

pytest.importorskip("huggingface_hub")
NONNEG = str(Path(sys.executable).with_name("nonneg"))


def nonneg(hub: Hub, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "HF_TOKEN": "hf_x"}
    command = [NONNEG, *words]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_bundle_goes_to_the_hub_and_comes_back_the_same(hub: Hub, tmp_path: Path) -> None:
    done = nonneg(hub, tmp_path, "push", str(DEFAULT), "hf:someone/lite", "--private")
    assert done.returncode == 0, done.stderr
    shipped = [path.name for path in DEFAULT.iterdir()]
    assert sorted(hub.files["someone/lite"]) == sorted([*shipped, "README.md"])
    assert hub.files["someone/lite"]["README.md"].startswith(b'---\nlicense: "apache-2.0"')
    assert hub.private["someone/lite"]
    assert open_bundle().manifest.fingerprint in hub.messages[0]
    hub.files["someone/lite"]["evil.py"] = b"raise SystemExit"
    done = nonneg(hub, tmp_path, "pull", "hf:someone/lite", "back")
    assert done.returncode == 0, done.stderr
    assert open_bundle(tmp_path / "back").manifest == open_bundle().manifest
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == sorted([*shipped, "README.md"])
    assert not list((tmp_path / "hf").rglob("evil.py")), "what the manifest does not list is not even fetched"


def test_a_damaged_repository_is_not_pulled(hub: Hub, tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in DEFAULT.iterdir()}
    hub.files["someone/bad"] = {**whole, "encoder.onnx": whole["encoder.onnx"][:-1] + b"x"}
    done = nonneg(hub, tmp_path, "pull", "hf:someone/bad", "out")
    assert done.returncode == 1
    assert "encoder.onnx is not the file that was exported" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("files", [None, {"config.json": b"{}"}])
def test_what_is_not_there_or_no_bundle_is_one_line(files: dict[str, bytes] | None, hub: Hub, tmp_path: Path) -> None:
    if files is not None:
        hub.files["someone/else"] = files
    done = nonneg(hub, tmp_path, "pull", "hf:someone/else", "out")
    assert done.returncode == 1
    assert "Error: hf:someone/else" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
