"""What the tests of every package may use: real photos, and real servers as processes of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from loopback_only import in_processes, refuse_others
from PIL import Image

if TYPE_CHECKING:
    from onnx import ModelProto

    from nonneg_vectors import Embeddings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job: tests' processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPORT = Path(tempfile.mkdtemp(prefix="nonneg-tests-")) / "left"  # of processes that would have left this machine
in_processes(REPORT)
refuse_others()
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"  # or Hugging Face's client asks its hub by which program it is used
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy comes: its threads wait awake, beside another test process
os.environ["RAY_AUTH_MODE"] = "token"  # of clusters that tests start, as by default, and of those who join them

StartServer = Callable[..., str]
MakeEmbeddings = Callable[..., "Embeddings"]
# Photographs that lie inside scikit-image's wheel: subjects that differ as a person's photos do.
SUBJECTS = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "motorcycle": "motorcycle_left.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
TILES = 4  # a side of each photo that is cut into parts
CROPS = ((0.0, 0.0, 0.8, 0.8), (0.2, 0.0, 1.0, 0.8), (0.0, 0.2, 0.8, 1.0), (0.2, 0.2, 1.0, 1.0), (0.1, 0.1, 0.9, 0.9))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, so that at the end no process waits for another's.

    After every two of them comes a file of tests that wait for clocks: of three processes two have a core each.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    waiting = dict.fromkeys(item.path for item in items if item.get_closest_marker("waits"))
    others = sorted(dict.fromkeys(item.path for item in items if item.path not in waiting), key=lambda p: -slow[p])
    place = {path: float(i) for i, path in enumerate(others)} | {path: 2 * i + 1.5 for i, path in enumerate(waiting)}
    items.sort(key=lambda item: place[item.path])


def pytest_sessionfinish() -> None:
    """Leave no folder behind."""
    shutil.rmtree(REPORT.parent, ignore_errors=True)


@pytest.fixture(autouse=True)
def on_this_machine() -> Iterator[None]:
    """Fail a test in which this process, or one that a test started, would have left this machine."""
    yield
    if REPORT.exists():
        said = REPORT.read_text(encoding="utf-8")
        REPORT.unlink()
        pytest.fail(f"this would have left the machine:\n{said}", pytrace=False)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ImageFolder of real photos: 7 subjects, 5 overlapping crops of each."""
    from importlib.util import find_spec

    spec = find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    folder = tmp_path_factory.mktemp("photos")
    for subject, name in SUBJECTS.items():
        image = Image.open(Path(spec.origin).parent / "data" / name).convert("RGB")
        (folder / subject).mkdir()
        for i, (left, top, right, bottom) in enumerate(CROPS):
            box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
            crop = image.crop(tuple(round(side) for side in box))
            crop.thumbnail((500, 500))
            crop.save(folder / subject / f"{subject}-{i}.jpg", quality=90)
    return folder


@pytest.fixture(scope="session")
def tiles(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """folder/subject/tile.jpg: 7 subjects, 16 parts of each that do not overlap."""
    folder = tmp_path_factory.mktemp("tiles")
    for subject in sorted(path for path in photos.iterdir()):
        with Image.open(subject / f"{subject.name}-4.jpg") as picture:
            (folder / subject.name).mkdir()
            side = min(picture.size) // TILES
            for i in range(TILES**2):
                x, y = i % TILES * side, i // TILES * side
                picture.crop((x, y, x + side, y + side)).save(folder / subject.name / f"{i:02}.jpg", quality=95)
    return folder


@pytest.fixture(scope="session")
def start_server() -> Iterator[StartServer]:
    """Start `nonneg serve` with these arguments on a free port; its address, once it is ready."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("nonneg")), "serve", "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        processes.append(process)
        return address_of(process)

    yield start
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(timeout=20)


def address_of(process: subprocess.Popen[str], seconds: float = 120) -> str:
    """The address that a starting server prints; its whole output in the error if it prints none in time."""
    lines: Queue[str] = Queue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.put(line)

    Thread(target=read, daemon=True).start()  # goes on reading, so that the server never blocks on a full pipe
    seen, deadline = "", time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            seen += lines.get(timeout=0.1)
        except Empty:
            if process.poll() is not None:
                break
        found = re.search(r"https?://[\w.\[\]:]+:\d+", seen)
        if found:
            return found[0]
    raise AssertionError(f"no server came up:\n{seen}")


@pytest.fixture(scope="session")
def server(start_server: StartServer) -> str:
    """The address of a server with the default model."""
    return start_server()


@pytest.fixture(scope="session")
def random_embeddings() -> MakeEmbeddings:
    """Sparse, non-negative vectors of length one, with skewed dimensions as real ones have."""
    import numpy as np

    from nonneg_vectors import Embeddings

    def make(n: int = 50, dimensions: int = 64, *, seed: int = 0, fingerprint: str = "f" * 32) -> Embeddings:
        rng = np.random.default_rng(seed)
        z = np.maximum(rng.normal(size=(n, dimensions)) - np.linspace(0, 2, dimensions), 0)
        ids = tuple(f"photos/{i:05d}.jpg" for i in range(n))
        raw = Embeddings.from_dense(z, fingerprint=fingerprint, model="random", ids=ids, normalized=False)
        return raw.shorten()

    return make


@pytest.fixture(scope="session")
def tiny() -> ModelProto:
    """A convolution, a pool and a linear layer with a ReLU, random weights: uint8 NHWC of 16 px in, 24 columns out."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    from nonneg_runtime.inference.runner import INPUT, OUTPUT

    rng = np.random.default_rng(1)
    weights = {
        "mean": np.full(1, 127.0, np.float32),
        "std": np.full(1, 64.0, np.float32),
        "kernel": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "w": rng.normal(size=(24, 8)).astype(np.float32),
        "b": rng.normal(size=24, scale=0.3).astype(np.float32),
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
        helper.make_node("Gemm", ["f", "w", "b"], ["z"], transB=1),
        helper.make_node("Relu", ["z"], [OUTPUT]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", 16, 16, 3])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", 24])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
