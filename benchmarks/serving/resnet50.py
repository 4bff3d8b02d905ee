"""A ResNet-50 bundle to measure: `python resnet50.py PHOTOS OUT`. Its weights are random: only its speed is real."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import nonneg_training.torchvision_schemas  # noqa: F401  (before torchvision)


def main(photos: str, out: str) -> None:
    from torchvision.models import resnet50

    torch.manual_seed(0)
    network = resnet50(weights=None).eval()
    network.fc = torch.nn.Identity()  # (batch, 2048), >= 0 as the last ReLU leaves them
    with tempfile.TemporaryDirectory() as folder:
        encoder = str(Path(folder) / "resnet50.onnx")
        batch = {0: torch.export.Dim("batch", min=1, max=1024)}
        example = (torch.zeros(2, 3, 224, 224),)
        torch.onnx.export(network, example, encoder, dynamo=True, dynamic_shapes=(batch,), external_data=False)
        command = [str(Path(sys.executable).with_name("nonneg")), "wrap", encoder, "--calibrate", photos]
        subprocess.run([*command, "--limit", "16", "--relu", "--out", out, "--name", "resnet50-random"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
