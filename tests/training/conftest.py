"""A tiny encoder really trained, once a session."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import RunSettings, read_settings


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors this small are slower on two threads; and a killed run must count as one that was not."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes that tests start


@pytest.fixture
def small() -> RunSettings:
    """Two epochs of NCL on the digits: about two seconds."""
    return read_settings(None, {"data.source": "digits", "loop.epochs": 2, "model.dimensions": 32})


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    run = tmp_path_factory.mktemp("runs") / "digits"
    train(read_settings(None, {"data.source": "digits", "loop.epochs": 3, "model.dimensions": 32}), run)
    return run


@pytest.fixture(scope="session")
def write_shard() -> Callable[..., None]:
    """Writes a tar as WebDataset does: key.png, key.cls and a key.json that is not needed."""

    def write(path: Path, values: dict[str, int], *, broken: str | None = None) -> None:
        with tarfile.open(path, "w") as tar:
            for key, value in values.items():
                buffer = io.BytesIO()
                Image.fromarray(np.full((12, 10, 3), value, np.uint8)).save(buffer, "PNG")
                image = b"no image" if key == broken else buffer.getvalue()
                for suffix, data in (("png", image), ("cls", str(value % 3).encode()), ("json", b"{}")):
                    info = tarfile.TarInfo(f"{key}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))

    return write
