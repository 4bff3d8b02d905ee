from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_client import Encoder
from nonneg_runtime.bundle.bundle_folder import Bundle


def nonneg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nonneg_cli", *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_server_answers_what_the_local_encoder_answers(served: str, bundle: Bundle, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    answer = httpx.post(
        served + "/embed?dimensions=30&top_k=5",
        content=(tmp_path / "a.png").read_bytes(),
        headers={"content-type": "image/png"},
    ).json()
    with Encoder(bundle) as encoder:
        local = encoder.embed([tmp_path / "a.png", pixels, Image.fromarray(pixels)], 30, 5)
    for indices, values in local:
        assert indices.tolist() == answer["data"][0]["indices"]
        np.testing.assert_array_equal(values, np.float32(answer["data"][0]["values"]))
    assert local.fingerprint == answer["fingerprint"]


def test_a_port_in_use_is_one_line_and_an_exit_code(bundle: Bundle) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = nonneg("serve", "--port", str(port), "--model", str(bundle.path))
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_a_bundle_is_refused(tmp_path: Path) -> None:
    done = nonneg("serve", "--port", "0", "--model", str(tmp_path))
    assert done.returncode == 1
    assert "is not a bundle" in done.stderr


@pytest.mark.parametrize(
    ("address", "out"),
    [
        pytest.param("hf:owner/name", "name", marks=pytest.mark.slow),
        ("hf:owner/name@v1", "name-v1"),
        pytest.param("timm:resnet50.a1_in1k", "resnet50.a1-in1k", marks=pytest.mark.slow),
        pytest.param("open_clip:ViT-B-32/laion2b", "laion2b", marks=pytest.mark.slow),
        pytest.param("torchvision:resnet18", "resnet18", marks=pytest.mark.slow),
    ],
)
def test_a_model_that_others_publish_is_refused_with_the_command_that_wraps_it(address: str, out: str) -> None:
    done = nonneg("serve", "--port", "0", "--model", address)
    assert done.returncode == 1
    assert f"{address} is a model that others publish, not a bundle" in done.stderr
    assert f"nonneg wrap {address} --calibrate photos/ --out {out}.bundle" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_changed_byte_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    for file in bundle.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    encoder = tmp_path / "encoder.onnx"
    encoder.write_bytes(encoder.read_bytes()[:-1] + b"\0")
    done = nonneg("serve", "--port", "0", "--model", str(tmp_path))
    assert done.returncode == 1
    assert "encoder.onnx is not the file that was exported" in done.stderr


def test_an_invalid_setting_names_flag_and_variable() -> None:
    done = nonneg("serve", "--port", "70000")
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert "NONNEG_PORT" in done.stderr


def test_a_start_is_one_line_without_warnings_and_a_stop_is_clean(bundle: Bundle) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "nonneg_cli",
        "serve",
        "--port",
        "0",
        "--model",
        str(bundle.path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("nonneg serves tiny (48 dimensions")
        httpx.get("http://" + line.partition("http://")[2].split()[0] + "/readyz").raise_for_status()
        process.terminate()
        out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("", "", 0)


HIDDEN = """
import sys
sys.modules["cykooz_resizer"] = None
from nonneg_cli.table import main
main()
"""


@pytest.mark.slow
def test_where_the_fast_resize_has_no_build_the_server_says_so_once_and_serves(
    start: Callable, bundle: Bundle, tmp_path: Path, png: Callable[[int], bytes]
) -> None:
    script = tmp_path / "hidden.py"
    script.write_text(HIDDEN)
    vectors = []
    for flags, lines in (((), 1), (("--decode", "exact"), 0)):
        given = ("--model", str(bundle.path), "--drain", "0", *flags)
        with start(*given, command=(str(script),)) as (address, process):
            vectors += [httpx.post(f"{address}/embed", content=png(number)).json()["data"] for number in range(2)]
            process.terminate()
            said = process.communicate(timeout=30)[1]
        assert said.count("images are resized by Pillow") == len(said.splitlines()) == lines
    assert vectors[:2] == vectors[2:]
