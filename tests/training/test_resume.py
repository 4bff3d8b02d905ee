"""Exact resume: a run that was killed and resumed ends where one that was not ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from nonneg_core.errors import ConfigInvalid
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import read_checkpoint
from nonneg_training.loop.training_run import resume, train
from nonneg_training.setup.run_settings import read_settings

pytestmark = pytest.mark.slow
SETTINGS = {"data.source": "digits", "loop.epochs": 2, "loop.save_every": 4, "loop.monitor_images": 50}
# eleven steps an epoch: the checkpoints at 4, 8, 16 and 20 lie within one


def equal(a: Path, b: Path, steps: int = 22) -> bool:
    first, second = read_checkpoint(a), read_checkpoint(b)
    assert first.step == second.step == steps
    assert first.tensors.keys() == second.tensors.keys()
    return all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


@pytest.mark.parametrize(
    "others",
    [
        {},
        pytest.param(
            {"optimiser.name": "lars", "loop.accumulate": 2, "loop.batch": 64, "loop.precision": "bf16"},
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_run_killed_in_the_middle_of_an_epoch_ends_as_if_it_had_not_been(
    tmp_path: Path, others: dict[str, object]
) -> None:
    settings = read_settings(None, {**SETTINGS, **others})
    train(settings, tmp_path / "whole")
    killed = tmp_path / "killed"
    code = f"""
from pathlib import Path
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings
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


DEADLY = """
import os, signal
from pathlib import Path
from nonneg_training.loop.training_loop import Loop
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings

step = Loop.step

def deadly(self, number, ahead):
    if number == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, number, ahead)

Loop.step = deadly
"""


def die(changes: dict[str, object], run: Path, world: int = 1) -> None:
    """Train until the process kills itself before its seventh step: the checkpoint of the fourth is there."""
    code = f"{DEADLY}train(read_settings(None, {changes!r}), Path({str(run)!r}))"
    for process in start(code, world):
        assert process.wait(timeout=120) == -signal.SIGKILL
    assert read_checkpoint(run).step == 4


def start(code: str, world: int) -> list[subprocess.Popen[bytes]]:
    """`code` in as many processes as torchrun would start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    group = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} | group if world > 1 else {} for rank in range(world)]
    return [subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **place}) for place in places]


ONE_EPOCH = {**SETTINGS, "loop.epochs": 1}


@pytest.mark.parametrize("kind", ["head", pytest.param("fp16", marks=pytest.mark.nightly)])
def test_so_does_a_killed_head_and_a_run_with_a_loss_scale(kind: str, trained: Path, tmp_path: Path) -> None:
    head = {
        "method": "head",
        "model.pretrained": str(trained),
        "head.cache": str(tmp_path / "cache"),
        "head.reconstruction": 1.0,
        "head.top_k": 8,
        "head.anneal_from": 24,
        "head.contrastive": 0.1,
        "head.views": 2,
    }
    changes: dict[str, object] = {**ONE_EPOCH, **(head if kind == "head" else {"loop.precision": "fp16"})}
    train(read_settings(None, changes), tmp_path / "whole")
    die(changes, tmp_path / "killed")
    resume(tmp_path / "killed")
    assert equal(tmp_path / "whole", tmp_path / "killed", steps=11)


@pytest.mark.nightly
def test_so_do_two_processes_that_were_killed(tmp_path: Path) -> None:
    def ended(code: str) -> None:
        for process in start(code, 2):
            assert process.wait(timeout=120) == 0

    code = "from pathlib import Path; from nonneg_training.loop.training_run import resume, train; "
    code += "from nonneg_training.setup.run_settings import read_settings; "
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    ended(f"{code}train(read_settings(None, {ONE_EPOCH!r}), Path({str(whole)!r}))")
    die(ONE_EPOCH, killed, world=2)
    ended(f"{code}resume(Path({str(killed)!r}))")
    assert equal(whole, killed, steps=11)


def test_resuming_a_finished_run_changes_nothing(trained: Path) -> None:
    before = (trained / "checkpoint.safetensors").read_bytes()
    resume(trained)
    assert (trained / "checkpoint.safetensors").read_bytes() == before


def test_resume_takes_no_other_settings(trained: Path) -> None:
    from click.testing import CliRunner

    from nonneg_training.train_command import train as command

    with pytest.raises(ConfigInvalid, match="own settings"):
        CliRunner().invoke(command, ["--out", str(trained), "--resume", "--lr", "1"], catch_exceptions=False)
