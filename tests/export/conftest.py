"""Real photos that come inside scikit-image's wheel, small encoders, and folders made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from PIL import Image

from nonneg_client.pixels.view import View
from nonneg_export.runtime import INPUT, OUTPUT

PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg", "retina.jpg")
SIZE = 16
VIEW = View(size=SIZE)


@pytest.fixture(scope="session")
def real_photos() -> list[Image.Image]:
    """Six real photographs, made small enough to be handled fast."""
    folder = Path(skimage.data.__file__).parent
    photos = []
    for name in PHOTOS:
        with Image.open(folder / name) as photo:
            small = photo.convert("RGB")
            small.thumbnail((160, 160))
            photos.append(small)
    return photos


@pytest.fixture(scope="session")
def labelled(real_photos: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """folder/class/image.jpg: six classes of ten overlapping crops each."""
    return crops(real_photos, tmp_path_factory.mktemp("labelled"), share=0.7)


@pytest.fixture(scope="session")
def held_out(real_photos: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other crops of the same classes, to report quality on."""
    return crops(real_photos, tmp_path_factory.mktemp("held-out"), share=0.65)


def crops(photos: list[Image.Image], root: Path, *, share: float) -> Path:
    rng = np.random.default_rng(0)
    for name, photo in zip(PHOTOS, photos, strict=True):
        folder = root / Path(name).stem
        folder.mkdir()
        for i in range(10):
            w, h = (int(side * share) for side in photo.size)
            x, y = rng.integers(0, photo.width - w), rng.integers(0, photo.height - h)
            photo.crop((x, y, x + w, y + h)).save(folder / f"{i:02}.jpg", quality=90)
    return root


@pytest.fixture(scope="session")
def tiny() -> ModelProto:
    """A convolution, a pool and a linear layer with a ReLU: 16 px in, 24 columns out."""
    return small_encoder(np.random.default_rng(1), columns=24)


def small_encoder(rng: np.random.Generator, columns: int, *, relu: bool = True) -> ModelProto:
    """uint8 NHWC -> Conv -> Relu -> GlobalAveragePool -> Gemm -> Relu, with random weights."""
    weights = {
        "mean": np.full(1, 127.0, np.float32),
        "std": np.full(1, 64.0, np.float32),
        "kernel": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "w": rng.normal(size=(columns, 8)).astype(np.float32),
        "b": rng.normal(size=columns, scale=0.3).astype(np.float32),
    }
    nodes = [
        helper.make_node("Transpose", [INPUT], ["nchw"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["nchw"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["x", "mean"], ["x0"]),
        helper.make_node("Div", ["x0", "std"], ["x1"]),
        helper.make_node("Conv", ["x1", "kernel"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["z" if relu else OUTPUT], transB=1),
    ]
    if relu:
        nodes.append(helper.make_node("Relu", ["z"], [OUTPUT]))
    return model_of(nodes, weights, columns)


def model_of(
    nodes: list[object], weights: dict[str, NDArray[np.float32]], columns: int, size: int = SIZE
) -> ModelProto:
    """An encoder from its nodes and weights."""
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", size, size, 3])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", columns])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
