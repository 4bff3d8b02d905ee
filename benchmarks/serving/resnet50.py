"""A ResNet-50 bundle to measure: `python resnet50.py PHOTOS OUT [WEIGHTS]`.

Without WEIGHTS they are random, and only its speed is real. WEIGHTS is a checkpoint of torchvision's ResNet-50,
whatever stands before the names: the wheel of `imgsim` 0.1.2 carries one (imgsim/model.pth; AugNet, self-supervised,
MIT), whose retrieval can be measured as well.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import nonneg_training.encoder.torchvision_schemas  # noqa: F401  (before torchvision)


def main(photos: str, out: str, weights: str | None = None) -> None:
    from torchvision.models import resnet50

    torch.manual_seed(0)
    network = resnet50(weights=None)
    if weights is not None:
        network.load_state_dict(without_prefix(weights), strict=False)
    network.fc = torch.nn.Identity()  # (batch, 2048), >= 0 as the last ReLU leaves them
    how = ("--limit", "16", "--relu", "--name", "resnet50-random") if weights is None else ("--centre",)
    with tempfile.TemporaryDirectory() as folder:
        encoder = str(Path(folder) / "resnet50.onnx")
        batch = {0: torch.export.Dim("batch", min=1, max=1024)}
        example = (torch.zeros(2, 3, 224, 224),)
        torch.onnx.export(network.eval(), example, encoder, dynamo=True, dynamic_shapes=(batch,), external_data=False)
        command = [str(Path(sys.executable).with_name("nonneg")), "wrap", encoder, "--calibrate", photos]
        subprocess.run([*command, *how, "--out", out], check=True)


def without_prefix(weights: str) -> dict[str, torch.Tensor]:
    """Return all but the classifier, under torchvision's names."""
    found = torch.load(weights, weights_only=True, map_location="cpu")
    prefix = next(name for name in found if name.endswith("conv1.weight")).removesuffix("conv1.weight")
    named = {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}
    return {name: tensor for name, tensor in named.items() if not name.startswith("fc.")}


if __name__ == "__main__":
    main(*sys.argv[1:])
