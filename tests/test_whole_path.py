"""The whole path on real parts: train, export, serve, embed, shorten; and the default model on real photos."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nonneg_cli.table import nonneg
from nonneg_client import Client, shorten
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import fast_resize
from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.columns import select_columns
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.onnx_backbone.onnx_graph import load_graph

pytestmark = pytest.mark.slow
StartServer = Callable[..., str]
NONNEG = str(Path(sys.executable).with_name("nonneg"))


def run(*arguments: str | Path) -> None:
    """Run a command as a process of its own."""
    done = subprocess.run([NONNEG, *map(str, arguments)], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, f"nonneg {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"


def run_here(*arguments: str | Path) -> None:
    """Run a command in this process, which has torch already, where another test has run it as a process."""
    done = CliRunner().invoke(nonneg, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder, really trained for a few seconds on scikit-learn's digits."""
    run_folder = tmp_path_factory.mktemp("runs") / "digits"
    run("train", "--data", "digits", "--backbone", "tiny-cnn", "--epochs", "1", "--seed", "7", "--out", run_folder)
    return run_folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as an ImageFolder of PNG files."""
    from PIL import Image
    from sklearn.datasets import load_digits

    folder = tmp_path_factory.mktemp("digits")
    data = load_digits()
    for i, (image, label) in enumerate(zip(data.images[:300], data.target[:300], strict=True)):
        (folder / str(label)).mkdir(exist_ok=True)
        Image.fromarray((image * 15.9).astype(np.uint8)).save(folder / str(label) / f"{i:04d}.png")
    return folder


def test_what_is_trained_and_exported_is_what_is_served_and_shortened(
    trained: Path, digits: Path, tmp_path: Path, start_server: StartServer
) -> None:
    bundle, short = tmp_path / "bundle", tmp_path / "short"
    run("export", trained, "--calibrate", digits, "--out", bundle)
    manifest = open_bundle(bundle).manifest
    half = manifest.dimensions // 2
    run_here("export", trained, "--calibrate", digits, "--out", short, "--dimensions", half)
    images = sorted(digits.rglob("*.png"))[::10]

    with Client(start_server("--model", str(bundle))) as client:
        full = client.embed(images, normalize=False)
        by_server = client.embed(images, dimensions=half)
    with Client(start_server("--model", str(short))) as client:
        by_export = client.embed(images)
    by_client = full.shorten(half)

    assert full.fingerprint == manifest.fingerprint
    assert full.numpy().shape == (len(images), manifest.dimensions)
    assert full.nnz.mean() > 1
    np.testing.assert_allclose(by_server.numpy(), by_client.numpy(), atol=1e-6)
    np.testing.assert_allclose(by_export.numpy(), by_client.numpy(), atol=1e-5)
    assert (np.diff(manifest.columns.expected_activation) <= 1e-9).all()


def test_the_default_model_tells_real_photos_apart_at_every_length(server: str, photos: Path) -> None:
    files = sorted(photos.rglob("*.jpg"))
    labels = np.array([file.parent.name for file in files])
    with Client(server) as client:
        full = client.embed(files)
        short = {dimensions: client.embed(files, dimensions=dimensions) for dimensions in (full.dimensions, 512, 128)}
    assert 0.45 < full.nnz.mean() / full.dimensions < 0.55, "of a pair of opposite columns one is active"
    for dimensions, embeddings in short.items():
        np.testing.assert_allclose(embeddings.numpy(), full.shorten(dimensions).numpy(), atol=1e-6)
        similarity = embeddings.similarity()
        np.fill_diagonal(similarity, -1)
        assert (labels[similarity.argmax(axis=1)] == labels).mean() > 0.9


def test_the_default_model_exported_anew_with_fewer_columns_gives_the_same_prefix(
    photos: Path, tmp_path: Path, start_server: StartServer
) -> None:
    files = sorted(photos.rglob("*.jpg"))[::5]
    server = start_server("--precision", "fp32")
    model = select_columns(load_graph(open_bundle().encoder), range(256))
    save(model, tmp_path / "encoder.onnx")
    fresh = Session(tmp_path / "encoder.onnx")
    view = open_bundle().manifest.view
    exported = np.concatenate([fresh.run(view.apply(decode(file.read_bytes()), fast_resize())[None]) for file in files])
    with Client(server) as client:
        np.testing.assert_allclose(shorten(exported), client.embed(files, dimensions=256).numpy(), atol=1e-6)


def test_top_k_keeps_the_largest_of_the_prefix_in_server_and_client_alike(server: str, photos: Path) -> None:
    files = sorted(photos.rglob("*.jpg"))[:5]
    with Client(server) as client:
        raw = client.embed(files, normalize=False).numpy()
        served = client.embed(files, dimensions=256, top_k=32)
    assert (served.nnz <= 32).all()
    np.testing.assert_allclose(served.numpy(), shorten(raw, 256, 32), atol=1e-6)


def test_a_run_trained_with_nested_lengths_keeps_the_order_it_trained(digits: Path, tmp_path: Path) -> None:
    nested = ("--set", "loss.lengths=[16, 64]", "--dimensions", "64")
    run_here("train", "--data", "digits", "--backbone", "tiny-cnn", "--epochs", "1", *nested, "--out", tmp_path / "run")
    run_here("export", tmp_path / "run", "--calibrate", digits, "--out", tmp_path / "bundle")
    manifest = open_bundle(tmp_path / "bundle").manifest
    assert manifest.calibration.ranked_by == "nested"
    assert manifest.columns.original == tuple(range(64))
