from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import ModelProto

from nonneg_core.errors import CheckFailed
from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.convert import to_onnx
from nonneg_runtime.inference.onnx_session import Session


class Small(torch.nn.Module):
    """A convolution, a batch norm, a linear layer, a batch norm and a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 6)
        self.last = torch.nn.BatchNorm1d(6)
        for norm in (self.norm, self.last):
            torch.nn.init.uniform_(norm.running_mean, -1, 1)  # type: ignore[arg-type]
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)  # type: ignore[arg-type]

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(pixels.permute(0, 3, 1, 2).float() / 255))
        return torch.relu(self.last(self.linear(x.mean((2, 3)))))


@pytest.fixture(scope="module")
def model() -> ModelProto:
    return to_onnx(Small(), 8)


def test_the_graph_answers_what_torch_answers_at_any_batch(model: ModelProto, tmp_path: Path) -> None:
    save(model, tmp_path / "m.onnx")
    encoder = Small().eval()
    for batch in (1, 2, 7):
        pixels = np.random.default_rng(batch).integers(0, 256, (batch, 8, 8, 3), dtype=np.uint8)
        with torch.inference_mode():
            expected = encoder(torch.from_numpy(pixels)).numpy()
        np.testing.assert_allclose(Session(tmp_path / "m.onnx").run(pixels), expected, atol=1e-6)


def test_the_same_module_gives_the_same_bytes_and_no_traces(model: ModelProto) -> None:
    first = model.SerializeToString(deterministic=True)
    assert to_onnx(Small(), 8).SerializeToString(deterministic=True) == first
    for trace in (b"torch", b"site-packages", b"test_convert", b"stack", b"Small"):
        assert trace not in first


def test_the_batch_norm_of_the_picture_is_folded(model: ModelProto) -> None:
    assert [node.op_type for node in model.graph.node].count("Conv") == 1
    spatial = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
    assert len(spatial) <= 1


class Unusual(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(pixels[:, :, :, 0].float()).abs()


def test_an_operator_that_onnx_lacks_is_named() -> None:
    with pytest.raises(CheckFailed, match="no ONNX form at opset 20") as caught:
        to_onnx(Unusual(), 8)
    assert "eig" in caught.value.message
