"""Exact resume: a run that was killed and resumed ends where one that was not ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from nonneg_client.errors import ConfigInvalid
from nonneg_training.checkpoint import read_checkpoint
from nonneg_training.metrics import read_metrics
from nonneg_training.run import resume, train
from nonneg_training.settings import read_settings

SETTINGS = {"data.source": "digits", "loop.epochs": 2, "loop.save_every": 4, "loop.monitor_images": 50}
# eleven steps an epoch: the checkpoints at 4, 8, 16 and 20 lie within one


def equal(a: Path, b: Path) -> bool:
    first, second = read_checkpoint(a), read_checkpoint(b)
    assert first.step == second.step == 22
    assert first.tensors.keys() == second.tensors.keys()
    return all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


@pytest.mark.parametrize("others", [{}, {"optimiser.name": "lars", "loop.accumulate": 2, "loop.batch": 64}])
def test_a_run_killed_in_the_middle_of_an_epoch_ends_as_if_it_had_not_been(
    tmp_path: Path, others: dict[str, object]
) -> None:
    settings = read_settings(None, {**SETTINGS, **others})
    train(settings, tmp_path / "whole")
    killed = tmp_path / "killed"
    code = f"""
from pathlib import Path
from nonneg_training.run import train
from nonneg_training.settings import read_settings
train(read_settings(None, { ({**SETTINGS, **others})!r}), Path({str(killed)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not (killed / "checkpoint.safetensors").exists() or read_checkpoint(killed).step < 8:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    stopped = read_checkpoint(killed).step
    assert stopped % 11 != 0
    resume(killed)
    assert equal(tmp_path / "whole", killed)
    steps = [row["step"] for row in read_metrics(killed)]
    assert steps == [str(i) for i in range(1, 23)]


def test_resuming_a_finished_run_changes_nothing(trained: Path) -> None:
    before = (trained / "checkpoint.safetensors").read_bytes()
    resume(trained)
    assert (trained / "checkpoint.safetensors").read_bytes() == before


def test_resume_takes_no_other_settings(trained: Path) -> None:
    from click.testing import CliRunner

    from nonneg_training.command import train as command

    with pytest.raises(ConfigInvalid, match="own settings"):
        CliRunner().invoke(command, ["--out", str(trained), "--resume", "--lr", "1"], catch_exceptions=False)
