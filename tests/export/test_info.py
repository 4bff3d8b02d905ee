from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

from nonneg_export.commands.whole_bundles import info
from nonneg_runtime.bundle.bundle_folder import open_bundle


def test_a_person_reads_what_the_default_model_is() -> None:
    text = CliRunner().invoke(info, [], catch_exceptions=False).output
    manifest = open_bundle().manifest
    for said in (
        manifest.name,
        manifest.fingerprint,
        "2048, 2048 live",
        "Apache-2.0",
        "encoder.onnx 9.2 MB",
        "int8, in the same space",
    ):
        assert said in text


def test_a_program_reads_json() -> None:
    record = json.loads(CliRunner().invoke(info, ["--json"], catch_exceptions=False).output)
    assert record["fingerprint"] == open_bundle().manifest.fingerprint
    assert "columns" not in record
    full = json.loads(CliRunner().invoke(info, ["--json", "--columns"], catch_exceptions=False).output)
    assert len(full["columns"]["frequency"]) == 2048


def test_info_needs_neither_torch_nor_onnx() -> None:
    program = (
        "import sys; from nonneg_export.commands.whole_bundles import info; info(['--json'], standalone_mode=False); "
        "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


def test_named_dimensions_are_listed_with_their_evidence() -> None:
    text = CliRunner().invoke(info, ["photo", "--names"], catch_exceptions=False).output
    assert "of 2048 dimensions have a name" in text
    assert any("tench" in line and "10 of its 10 strongest photos show it" in line for line in text.splitlines())
    record = json.loads(CliRunner().invoke(info, ["photo", "--names", "--json"], catch_exceptions=False).output)
    assert {"dimension", "name", "precision"} <= set(record["named"][0])
