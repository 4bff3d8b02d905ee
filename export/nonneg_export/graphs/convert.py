"""From a torch module to ONNX: uint8 (batch, size, size, 3) in, float32 (batch, D) out."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.arrays import Floats
from nonneg_core.errors import CheckFailed
from nonneg_export.graphs.canonical import canonical, silenced
from nonneg_runtime.inference.runner import INPUT, OUTPUT
from nonneg_runtime.inference.text_tower import TOKENS

OPSET = 20
OURS = "nonneg."


def to_onnx(encoder: torch.nn.Module, size: int) -> ModelProto:
    """Return the encoder as a canonical ONNX model with a dynamic batch; batch norms are folded on the way."""
    return _traced(encoder.eval(), torch.zeros((2, size, size, 3), dtype=torch.uint8), INPUT)


def text_to_onnx(encoder: torch.nn.Module, length: int) -> ModelProto:
    """Return a text tower that takes int64 (batch, length), the same way."""
    return _traced(encoder.eval(), torch.zeros((2, length), dtype=torch.int64), TOKENS)


def in_torch(module: torch.nn.Module, *, relu: bool = False) -> Callable[[NDArray[Any]], Floats]:
    """Return a function that runs the module itself on arrays: what its graph is compared with."""

    def run(batch: NDArray[Any]) -> Floats:
        with torch.inference_mode():
            rows: Floats = module(torch.from_numpy(np.ascontiguousarray(batch))).numpy()
        return np.maximum(rows, 0) if relu else rows

    return run


def _traced(encoder: torch.nn.Module, example: torch.Tensor, takes: str) -> ModelProto:
    try:
        with silenced(), torch.inference_mode(False), torch.no_grad():
            program = torch.onnx.export(
                encoder,
                (example,),
                dynamo=True,
                external_data=False,
                opset_version=OPSET,
                input_names=[OURS + takes],  # an encoder may have values of the plain names
                output_names=[OURS + OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
    except Exception as error:  # the exporter raises what its many stages raise
        raise CheckFailed(
            f"this encoder has no ONNX form at opset {OPSET} ({_reason(error)})",
            fix="replace the operator it names, or make the module independent of the batch size",
        ) from error
    assert program is not None
    model = _named(canonical(program.model_proto))
    del program  # it holds the weights three times more, in cycles
    gc.collect()
    if not all(value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)):
        raise CheckFailed(
            "this encoder has no ONNX form with a free batch size: it was traced for 2 images only",
            fix="make the module independent of the batch size",
        )
    return model


def _named(model: ModelProto) -> ModelProto:
    """Return the model with the plain names at its two ends."""
    for value in (*model.graph.input, *model.graph.output):
        value.name = value.name.removeprefix(OURS)
    for node in model.graph.node:
        node.input[:] = [name.removeprefix(OURS) for name in node.input]
        node.output[:] = [name.removeprefix(OURS) for name in node.output]
    return model


def _reason(error: Exception) -> str:
    """Return the innermost cause in one line: the exporter wraps it in pages of advice."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
