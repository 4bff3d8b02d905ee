"""A tiny real bundle, an application over it, and a server process over it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.atlas_file import FILE_NAME, AtlasDimension, ExampleRecord, write_atlas
from nonneg_runtime.bundle.atlas_file import Image as Shown
from nonneg_runtime.bundle.bundle_folder import Bundle, write_bundle
from nonneg_runtime.bundle.evidence import Golden
from nonneg_runtime.bundle.manifest import Calibration, Columns, Manifest, NamesRecord, Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import INPUT, OUTPUT, test_pattern
from nonneg_runtime.words.names import NAMES, Name, Names
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

SIZE, WIDTH = 16, 48
Popen = subprocess.Popen[str]
NAMED = (
    Name(dimension=5, name="tabby", common="cat", precision=0.9, photos=20, rank=2, level=-99),
    Name(dimension=7, name="ox", rank=3, level=-99),
    Name(dimension=9, name="cab", source="captions", level=-99),
)


def tiny_encoder(path: Path, *, seed: int = 0) -> None:
    """relu(pixels @ W - b): uint8 in, about a quarter of the columns active."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(SIZE * SIZE * 3, WIDTH)).astype(np.float32) / 40
    bias = rng.normal(size=WIDTH).astype(np.float32) / 4 - 0.1
    constants = [
        numpy_helper.from_array(np.array([0, -1], np.int64), "flat"),
        numpy_helper.from_array(np.float32([1 / 255]), "scale"),
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(bias, "bias"),
    ]
    nodes = [
        helper.make_node("Cast", [INPUT], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "scale"], ["scaled"]),
        helper.make_node("Reshape", ["scaled", "flat"], ["rows"]),
        helper.make_node("MatMul", ["rows", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["shifted"]),
        helper.make_node("Relu", ["shifted"], [OUTPUT]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", SIZE, SIZE, 3])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", WIDTH])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def tiny_bundle(folder: Path, *, name: str = "tiny", seed: int = 0) -> Bundle:
    """A sealed bundle around the tiny encoder."""
    encoder = folder / f"{name}.onnx"
    tiny_encoder(encoder, seed=seed)
    z = Session(encoder).run(test_pattern(SIZE))[0]
    active = np.flatnonzero(z)
    manifest = Manifest(
        name=name,
        version="1",
        description="a test's model",
        dimensions=WIDTH,
        activation="relu",
        view=View(size=SIZE),
        provenance=Provenance(weights="random", weights_license="CC0-1.0", data="none", data_license="CC0-1.0"),
        columns=Columns(
            original=tuple(range(WIDTH)),
            expected_activation=tuple(float(v) for v in np.linspace(0.3, 0.01, WIDTH)),
            frequency=tuple(float(v) for v in np.linspace(0.9, 0.05, WIDTH)),
            variance=(0.01,) * WIDTH,
        ),
        calibration=Calibration(images=10, data="test pattern", digest="0" * 64),
        golden=Golden(indices=tuple(map(int, active)), values=tuple(map(float, z[active]))),
        names=NamesRecord(file=NAMES, named=len(NAMED), checked=1, data="none"),
        files={},
    )
    atlas = folder / f"{name}.sqlite"
    images = [Shown("a/red.jpg", "tomato", _thumbnail("red")), Shown("blue.jpg", "", _thumbnail("blue"))]
    named = [AtlasDimension(j, "red things" if j == 0 else "", 0.5) for j in range(WIDTH)]
    entries = [ExampleRecord(0, 0, 0, 0.9), ExampleRecord(0, 1, 1, 0.5), ExampleRecord(3, 0, 0, 0.4)]
    write_atlas(atlas, images, named, entries, fingerprint="")
    Names(dimensions=WIDTH, precision_on="none", rank_on="none", names=NAMED, unnamed="too few photos").write(
        folder / NAMES
    )
    return write_bundle(folder / name, manifest, {"encoder.onnx": encoder, FILE_NAME: atlas, NAMES: folder / NAMES})


def _thumbnail(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return tiny_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="session")
def make_bundle() -> Callable[..., Bundle]:
    """make_bundle(folder, name=…, seed=…): another seed, other weights."""
    return tiny_bundle


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def png() -> Callable[[int], bytes]:
    """The bytes of a smooth, colourful PNG, another for every seed."""

    def paint(seed: int = 0) -> bytes:
        small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8))
        buffer = io.BytesIO()
        small.resize((40, 30), Image.Resampling.BICUBIC).save(buffer, "PNG")
        return buffer.getvalue()

    return paint


@pytest.fixture(scope="session")
def engine(bundle: Bundle) -> Iterator[InferenceEngine]:
    engine = InferenceEngine(bundle, threads=2)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def registry(engine: InferenceEngine) -> Registry:
    return Registry(engine)


ASGI = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="session")
def client_for(registry: Registry) -> ASGI:
    """An httpx client over the application itself, with settings of one's own."""

    def make(**settings: Any) -> httpx.AsyncClient:
        app = create_app(registry, Settings(**settings))
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")

    return make


@pytest.fixture
async def client(client_for: ASGI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_for() as client:
        yield client


@contextmanager
def started(*flags: str, command: Sequence[str] = ("-m", "nonneg_cli")) -> Iterator[tuple[str, Popen]]:
    """A real `nonneg serve` on a free port: its address and its process, whose output can be read when it ended."""
    line = [sys.executable, *command, "serve", "--port", "0", *flags]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if "://" not in first:
                process.kill()
                raise AssertionError(f"no start: {first}{process.communicate()[1]}")
            yield first.rpartition(" on ")[2].split()[0], process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """A real `nonneg serve`; yields its address."""
    with started("--drain", "0", *flags) as (address, _):
        yield address


Start = Callable[..., AbstractContextManager[tuple[str, Popen]]]


@pytest.fixture(scope="session")
def start() -> Start:
    """For tests that need the process itself."""
    return started


@pytest.fixture(scope="session")
def served(bundle: Bundle) -> Iterator[str]:
    with serving("--model", str(bundle.path)) as address:
        yield address
