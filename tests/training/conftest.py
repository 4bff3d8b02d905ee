"""A tiny encoder really trained, once a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from nonneg_training.run import train
from nonneg_training.settings import Settings, read_settings


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors this small are slower on two threads; and a killed run must count as one that was not."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes that tests start


@pytest.fixture
def small() -> Settings:
    """Two epochs of NCL on the digits: about two seconds."""
    return read_settings(None, {"data.source": "digits", "loop.epochs": 2, "model.dimensions": 32})


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    run = tmp_path_factory.mktemp("runs") / "digits"
    train(read_settings(None, {"data.source": "digits", "loop.epochs": 3, "model.dimensions": 32}), run)
    return run
