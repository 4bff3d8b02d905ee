"""The same model in another precision, served by a flag; what is not there is refused with its fix."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import httpx
import numpy as np
import pytest

from nonneg_client import Client
from nonneg_core.errors import FingerprintMismatch
from nonneg_core.terminal.installing import extra_hint
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.encoder import openvino_package
from nonneg_vectors.storage.embeddings import Embeddings

StartServer = Callable[..., str]


def has_bf16() -> bool:
    if find_spec("openvino") is None:
        return False
    return "BF16" in openvino_package().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


needs_bf16 = pytest.mark.skipif(not has_bf16(), reason="needs OpenVINO and a processor with bfloat16")


def nonneg(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nonneg_cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module", params=["int8", pytest.param("bf16", marks=needs_bf16)])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def original(precision: str, bundle: Bundle, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle with its variant beside it, where `quantize` puts it by itself."""
    folder = tmp_path_factory.mktemp("variants") / "tiny"
    shutil.copytree(bundle.path, folder)
    done = nonneg("quantize", folder, "--to", precision, "--images", photos, "--min-quality", "0.5")
    assert done.returncode == 0, done.stderr
    return open_bundle(folder)


def test_the_variant_is_served_under_the_models_name_with_a_fingerprint_of_its_own(
    precision: str, original: Bundle, photos: Path, start_server: StartServer
) -> None:
    variant = open_bundle(original.path.with_name(f"tiny.{precision}"))
    files = sorted(photos.rglob("*.jpg"))
    url = start_server("--model", str(original.path), "--precision", precision)
    with Client(url) as client:
        fast = client.embed(files)
        listed = httpx.get(f"{url}/models").json()["models"][0]
    with Client(start_server("--model", str(original.path), "--precision", "fp32")) as client:
        exact = client.embed(files)
    assert variant.manifest.derived_from == original.manifest.fingerprint == exact.fingerprint
    assert fast.fingerprint == variant.manifest.fingerprint != exact.fingerprint
    assert (fast.model, exact.model) == ("tiny", "tiny")
    assert (listed["fingerprint"], listed["precision"]) == (fast.fingerprint, precision)
    cosines = (fast.numpy() * exact.numpy()).sum(axis=1)
    assert 0.98 < cosines.min() < 0.999999
    with pytest.raises(FingerprintMismatch):
        Embeddings.concatenate([fast, exact])


def test_a_variant_that_is_not_there_is_refused_with_the_command_that_makes_it(precision: str, bundle: Bundle) -> None:
    done = nonneg("serve", "--port", "0", "--model", bundle.path, "--precision", precision)
    assert done.returncode == 1
    assert f"nonneg quantize {bundle.path} --to {precision} --images PHOTOS" in done.stderr


def test_a_variant_of_another_model_is_refused(
    precision: str, original: Bundle, make_bundle: Callable[..., Bundle], tmp_path: Path
) -> None:
    other = make_bundle(tmp_path, name="other", seed=1)
    shutil.copytree(original.path.with_name(f"tiny.{precision}"), tmp_path / f"other.{precision}")
    done = nonneg("serve", "--port", "0", "--model", other.path, "--precision", precision)
    assert done.returncode == 1
    assert "was made from another model" in done.stderr
    assert "--replace" in done.stderr


def test_a_variant_is_not_taken_for_the_original(precision: str, original: Bundle) -> None:
    variant = original.path.with_name(f"tiny.{precision}")
    done = nonneg("serve", "--port", "0", "--model", variant, "--precision", "fp32")
    assert done.returncode == 1
    assert f"has no fp32 variant: it is {precision}" in done.stderr


@needs_bf16
@pytest.mark.parametrize("precision", ["bf16"], indirect=True)
def test_bf16_is_refused_on_a_runtime_that_does_not_compute_it(precision: str, original: Bundle) -> None:
    words = ("serve", "--port", "0", "--model", original.path, "--precision", "bf16", "--provider", "cpu")
    done = nonneg(*words)
    assert done.returncode == 1
    assert "to be computed in bf16, and CPUExecutionProvider does not" in done.stderr


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
def test_openvino_answers_what_onnx_runtime_answers_under_the_same_fingerprint(
    bundle: Bundle, served: str, photos: Path, start_server: StartServer
) -> None:
    files = sorted(photos.rglob("*.jpg"))
    with Client(start_server("--model", str(bundle.path), "--provider", "openvino")) as client:
        theirs = client.embed(files * 3)
    with Client(served) as client:
        ours = client.embed(files * 3)
    assert theirs.fingerprint == ours.fingerprint
    np.testing.assert_allclose(theirs.numpy(), ours.numpy(), atol=1e-5)


@pytest.mark.skipif(find_spec("openvino") is not None, reason="needs OpenVINO not to be there")
def test_openvino_is_refused_where_it_is_not_installed(bundle: Bundle) -> None:
    done = nonneg("serve", "--port", "0", "--model", bundle.path, "--provider", "openvino")
    assert done.returncode == 1
    assert extra_hint("openvino") in done.stderr
