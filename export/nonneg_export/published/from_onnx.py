"""An ONNX image encoder as a tower: scaling put before it, its pooled features as the only output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from onnx import ModelProto

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_export.graphs.canonical import canonical
from nonneg_export.published.families import Pooling
from nonneg_export.published.tower import Tower
from nonneg_training.onnx_backbone.onnx_graph import load
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling, output_of, with_scaling_and_pooling


@dataclass(frozen=True)
class OnnxInterface:
    """How an ONNX file is fed and what is taken of it."""

    encoder: Path
    view: View
    scaling: Scaling
    input_name: str | None = None
    output_name: str | None = None
    pool: Pool | None = None


def features(how: OnnxInterface) -> ModelProto:
    """Return the encoder with scaling before it and its own features as output."""
    return canonical(
        with_scaling_and_pooling(
            load(how.encoder),
            how.view.size,
            how.scaling,
            input_name=how.input_name,
            output_name=how.output_name,
            pool=how.pool,
        )
    )


def tower(how: OnnxInterface) -> Tower:
    """Return the file as a tower."""
    check_pool(how)
    return Tower(features(how), how.view, weights=how.encoder.name)


def taken(how: OnnxInterface) -> str:
    """Return the name of the output that is taken."""
    return output_of(load(how.encoder), how.output_name)


def answers_rows(how: OnnxInterface) -> bool:
    """Return whether the output that is taken is declared as one row an image."""
    model = load(how.encoder)
    name = output_of(model, how.output_name)
    kind = next(value for value in model.graph.output if value.name == name).type.tensor_type
    return kind.HasField("shape") and len(kind.shape.dim) == 2


def check_pool(how: OnnxInterface) -> None:
    """Refuse a pooling of what is one row already."""
    if how.pool is not None and answers_rows(how):
        raise ConfigInvalid(
            f"output {taken(how)!r} is one row an image already, and --pool {how.pool} is for tokens or a map",
            fix="leave --pool out, or choose another output with --output",
            field="pool",
            value=how.pool,
        )


def by_family(how: OnnxInterface, family: Pooling) -> OnnxInterface:
    """Return the same with output and pooling of its architecture, where nothing was said."""
    if how.output_name is not None or how.pool is not None:
        check_pool(how)
        return how
    outputs = [value.name for value in load(how.encoder).graph.output]
    named = [name for name in family.outputs if name in outputs]
    tokens = family.pool or (family.of_tokens or "cls" if not named and "last_hidden_state" in outputs else None)
    chosen = replace(how, output_name=named[0] if named else None)
    return chosen if answers_rows(chosen) else replace(chosen, pool=tokens)
