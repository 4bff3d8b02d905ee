"""What comes behind an encoder's features, so that its output is non-negative: the same as a graph and in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.heads.from_features import Fitted, fit_head
from nonneg_export.canonical import canonical
from nonneg_export.columns import activate, centre
from nonneg_export.head import with_head
from nonneg_export.root_head import with_root_head

Rows = NDArray[np.float32]
ANALYTIC, NONE = "analytic", "none"


@dataclass(frozen=True)
class Steps:
    """What comes behind an encoder's features. head: `analytic`, `none`, or the file of a linear layer."""

    head: str = NONE
    centre: bool = False
    relu: bool = False

    @property
    def layer(self) -> Path | None:
        """The file of the linear layer."""
        return None if self.head in (ANALYTIC, NONE) else Path(self.head)


@dataclass(frozen=True, eq=False)
class Behind:
    """A whole encoder, what it does behind the features, and the same in numpy."""

    model: ModelProto
    apply: Callable[[Rows], Rows]
    activation: str
    fitted: Fitted | None = None


def check(how: Steps) -> None:
    """Refuse steps that contradict each other."""
    if how.centre and how.relu:
        raise ConfigInvalid("--centre already ends in a ReLU", fix="leave --relu out", field="relu")
    if how.head == ANALYTIC and (how.centre or how.relu):
        raise ConfigInvalid(
            "the analytic head centres and rectifies by itself",
            fix="leave --centre and --relu out, or say --head none",
            field="head",
            value=how.head,
        )


def behind(how: Steps, model: ModelProto, rows: Rows) -> Behind:
    """What makes features non-negative, computed from `rows` of them, and put behind the model that answers them."""
    check(how)
    if how.head == ANALYTIC:
        return _analytic(model, fit_head(rows))
    layer, linear = how.layer, "features"
    steps: list[Callable[[Rows], Rows]] = []
    if layer is not None:
        weight, bias = read_head(layer)
        model, linear = with_head(model, weight, bias), "linear"
        steps.append(lambda x: np.asarray(x @ weight.T + (0 if bias is None else bias), dtype=np.float32))
    if how.centre:
        mean = np.asarray(_through(steps, rows).mean(axis=0, dtype=np.float64), dtype=np.float32)
        model = centre(model, mean)
        steps.append(lambda x: np.maximum(x - mean, 0))
    if how.relu:
        model = activate(model)
        steps.append(lambda x: np.maximum(x, 0))
    activation = f"relu({linear} - mean)" if how.centre else "relu" if how.relu else "the encoder's own"
    return Behind(canonical(model), lambda x: _through(steps, x), activation)


def _analytic(model: ModelProto, fitted: Fitted) -> Behind:
    if fitted.takes == "roots":  # of other photos a feature might go below zero
        model = activate(model)
    whole = canonical(with_root_head(model, fitted.head, takes=fitted.takes))
    taken = {"roots": "sqrt(features)", "directions": "features / |features|", "features": "features"}[fitted.takes]
    said = f"p^{fitted.head.power:g} where p = relu({taken} weight + bias) is above the gate"
    return Behind(whole, fitted.embed, said, fitted)


def _through(steps: list[Callable[[Rows], Rows]], rows: Rows) -> Rows:
    for step in steps:
        rows = step(rows)
    return rows


def read_head(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """`weight` and `bias` from an .npz or .safetensors file."""
    try:
        tensors = _tensors(path)
    except (OSError, ValueError, KeyError) as error:
        raise DataInvalid(
            f"{path} cannot be read ({error})", fix="give analytic, none, or an .npz or .safetensors file"
        ) from error
    if "weight" not in tensors:
        raise DataInvalid(
            f"{path} holds {', '.join(sorted(tensors)) or 'nothing'}, but no 'weight'",
            fix="save the layer's arrays under the names weight and bias",
            field="head",
        )
    return tensors["weight"], tensors.get("bias")


def _tensors(path: Path) -> dict[str, NDArray[Any]]:
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise ValueError(error) from error
    if path.suffix != ".npz":
        raise ValueError(f"{path.suffix or 'no suffix'} is neither .npz nor .safetensors")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
