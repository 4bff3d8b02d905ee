"""Nothing leaves the machine by itself: the runtimes' own reporting is off."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

LOAD = "from nonneg_client import Encoder; Encoder().close()"
OPENVINO = """
import sys
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.runner import PROVIDERS
from nonneg_runtime.inference.encoder import open_session
open_session(open_bundle().encoder, providers=PROVIDERS["openvino"])
assert not any(name.startswith("openvino_telemetry") for name in sys.modules), "it was loaded"
"""


def run(program: str, home: Path) -> None:
    keep = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    environment = {**keep, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)


def test_onnx_runtime_keeps_no_identity_and_no_reports_of_this_machine(tmp_path: Path) -> None:
    run(LOAD, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
def test_openvino_is_loaded_without_its_reporter(tmp_path: Path) -> None:
    run(OPENVINO, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
