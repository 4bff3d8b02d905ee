"""The projector that a run trained, as layers behind an ONNX encoder."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import nn

from nonneg_core.heads.from_features import Takes
from nonneg_core.heads.head import Head
from nonneg_export.graphs.columns import activate
from nonneg_export.graphs.linear_head import with_head
from nonneg_export.graphs.root_head import with_root_head
from nonneg_training.encoder import EncoderModule

Weight = NDArray[np.float32]
OPERATORS = {"relu": "Relu", "rep_relu": "Relu", "sigmoid": "Sigmoid", "softplus": "Softplus", "exp": "Exp"}


def with_projector(model: ModelProto, encoder: EncoderModule, *, stored: type = np.float32) -> ModelProto:
    """Return a copy with all that `encoder` has behind its backbone; `stored`: the type of a single layer's weights."""
    if (head := head_of(encoder)) is not None:
        return with_root_head(model, head, takes=takes(encoder), stored=stored)
    for layer in encoder.hidden:
        model = with_head(model, *_arrays(layer)) if isinstance(layer, nn.Linear) else activate(model)
    model = with_head(model, *folded(*encoder.output_layers()))
    return model if encoder.activation == "identity" else activate(model, OPERATORS[encoder.activation])


def head_of(encoder: EncoderModule) -> Head | None:
    """Return the encoder's one layer, its gate and its power; None where it has more layers, or another activation."""
    if len(encoder.hidden) or OPERATORS.get(encoder.activation) != "Relu":
        return None
    weight, bias = folded(*encoder.output_layers())
    gate = np.zeros_like(bias) if encoder.gate is None else encoder.gate.detach().numpy()
    return Head(np.ascontiguousarray(weight.T), bias, gate, encoder.power)


def takes(encoder: EncoderModule) -> Takes:
    """Return what the head takes of the features."""
    return "roots" if encoder.root else "features"


def round_weights(encoder: EncoderModule) -> None:
    """Give the last layer the weights that a head's file holds, which are float16."""
    with torch.no_grad():
        encoder.output.weight.copy_(encoder.output.weight.half().float())


def folded(linear: nn.Linear, norm: nn.BatchNorm1d | None) -> tuple[Weight, Weight]:
    """Weight and bias of the linear layer that does what both do in evaluation."""
    weight, bias = _arrays(linear)
    if norm is None:
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight.detach().numpy() / np.sqrt(norm.running_var.numpy() + norm.eps)  # (D,)
    shift = norm.bias.detach().numpy() - norm.running_mean.numpy() * scale
    return (weight * scale[:, None]).astype(np.float32), (bias * scale + shift).astype(np.float32)


def _arrays(linear: nn.Linear) -> tuple[Weight, Weight]:
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()
