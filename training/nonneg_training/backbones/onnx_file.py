"""An ONNX encoder as a backbone: ONNX Runtime computes its features, nothing of it learns."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from nonneg_runtime.inference.session import Session
from nonneg_training.backbones.backbone import Backbone
from nonneg_training.onnx_backbone.recipe import features_graph
from nonneg_training.settings import Onnx


class OnnxBackbone(Backbone):
    """Takes the pixels as they are, 0..255: scaling is part of the graph, as it will be in the bundle."""

    def __init__(self, path: Path, how: Onnx, size: int) -> None:
        model = features_graph(path, how, size)
        width = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
        super().__init__(nn.Identity(), width, size=size, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        self._digest = f"{how.digest} {how.model_dump_json(exclude={'preprocessor'})}"
        self._session = Session(model.SerializeToString(), threads=torch.get_num_threads())
        self._made_of = (path, how, size)

    def __reduce__(self) -> tuple[type[OnnxBackbone], tuple[Path, Onnx, int]]:
        return OnnxBackbone, self._made_of  # a session does not travel: another process opens the file by the same path

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        pixels = x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        rows = self._session.run(pixels.cpu().numpy())
        return torch.from_numpy(rows).to(x.device)

    def identity(self) -> bytes:
        return self._digest.encode()
