"""Two gloo processes get the loss and the gradients of one process on the joint batch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import read_checkpoint

pytestmark = pytest.mark.slow
GRADIENTS = """
import sys, torch
from pathlib import Path
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel
from nonneg_core.pixels.view import View
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.setup.process_group import join, leave
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.methods.view_methods import Contrastive
from nonneg_training.methods.view_methods import Spectral
from nonneg_training.setup.run_settings import Loss

torch.set_num_threads(1)
world = join()
found = {}
for kind in (Contrastive, Spectral):
    torch.manual_seed(0)
    shape = {"dimensions": 24, "hidden": (32,), "activation": "rep_relu"}
    encoder = EncoderModule(open_backbone("tiny-cnn", small=True), View(size=16), **shape)
    method = kind(encoder, Loss(lengths=(8, 24)))
    views = torch.rand(2, 12, 3, 16, 16) * 255  # (view, image, ...)
    share = 12 // world.size
    mine = views[:, world.rank * share : (world.rank + 1) * share].flatten(0, 1)
    learner = DistributedDataParallel(method) if world.size > 1 else method
    loss = learner({"views": mine})["loss"]
    loss.backward()
    found |= {f"{kind.__name__}.{n}": p.grad.contiguous() for n, p in method.named_parameters()}
    found[f"{kind.__name__}.loss"] = loss.detach()
save_file(found, Path(sys.argv[1]) / f"{world.size}-{world.rank}.safetensors")
leave()
"""


def together(count: int, *command: str) -> None:
    """Run `command` as torchrun would, in `count` processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = []
    for rank in range(count):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank)} | group if count > 1 else {}
        processes.append(subprocess.Popen([sys.executable, *command], env={**os.environ, **place}))
    try:
        assert [process.wait(timeout=120) for process in processes] == [0] * count
    finally:
        for process in processes:
            process.kill()


def test_loss_and_gradients_are_those_of_one_process_on_the_joint_batch(tmp_path: Path) -> None:
    together(1, "-c", GRADIENTS, str(tmp_path))
    together(2, "-c", GRADIENTS, str(tmp_path))
    alone = load_file(tmp_path / "1-0.safetensors")
    for rank in range(2):
        shared = load_file(tmp_path / f"2-{rank}.safetensors")
        assert shared.keys() == alone.keys()
        for name, expected in alone.items():
            torch.testing.assert_close(shared[name], expected, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.nightly
def test_a_run_of_two_processes_leaves_one_checkpoint_and_one_row_a_step(tmp_path: Path) -> None:
    arguments = ["--data", "digits", "--epochs", "1", "--batch", "256", "--out", str(tmp_path / "run")]
    code = "from nonneg_cli.table import main; main()"
    together(2, "-c", code, "train", *arguments)
    assert read_checkpoint(tmp_path / "run").step == 5
    assert len(read_metrics(tmp_path / "run")) == 5


@pytest.mark.nightly
def test_two_processes_train_a_module_of_ones_own_and_the_first_alone_logs(tmp_path: Path) -> None:
    own = ["--plugin", str(Path(__file__).with_name("plugin.py")), "--backbone", "four-by-four"]
    own += ["--set", "loss.name=distance", "--set", 'loop.loggers=["lines"]']
    arguments = ["--data", "digits", "--steps", "3", "--batch", "64", *own, "--out", str(tmp_path / "run")]
    together(2, "-c", "from nonneg_cli.table import main; main()", "train", *arguments)
    assert len((tmp_path / "run" / "lines.txt").read_text().splitlines()) == 3


@pytest.mark.parametrize("batch", ["33", "2"])
def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path, batch: str) -> None:
    from nonneg_core.errors import ConfigInvalid
    from nonneg_training.data import open_data
    from nonneg_training.loop.build_encoder import resolve
    from nonneg_training.setup.process_group import ProcessGroup
    from nonneg_training.setup.run_settings import read_settings

    with pytest.raises(ConfigInvalid, match=r"shared by 2|nothing to differ"):
        resolve(read_settings(None, {"loop.batch": int(batch)}), open_data("digits"), ProcessGroup(0, 2))
