"""What comes behind an encoder's features, so that its output is non-negative: the same as a graph and in numpy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.arrays import Rows
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files import safetensors_file
from nonneg_core.terminal.installing import needing
from nonneg_export.graphs.canonical import canonical
from nonneg_export.graphs.columns import activate, centre
from nonneg_export.graphs.head_layers import with_head, with_root_head
from nonneg_runtime.heads.feature_head import FittedHead, fit_head, head_input

ANALYTIC, TRAIN, NONE = "analytic", "train", "none"


@dataclass(frozen=True)
class HeadSteps:
    """What comes behind an encoder's features. head: `analytic`, `train`, `none`, or the file of a linear layer."""

    head: str = NONE
    centre: bool = False
    relu: bool = False

    @property
    def layer(self) -> Path | None:
        """The file of the linear layer."""
        return None if self.head in (ANALYTIC, TRAIN, NONE) else Path(self.head)


@dataclass(frozen=True, eq=False)
class EncoderWithHead:
    """A whole encoder, what it does behind the features, and the same in numpy."""

    model: ModelProto
    apply: Callable[[Rows], Rows]
    activation: str
    fitted: FittedHead | None = None


def check_head_steps(how: HeadSteps) -> None:
    """Refuse steps that contradict each other."""
    if how.centre and how.relu:
        raise ConfigInvalid("--centre already ends in a ReLU", fix="leave --relu out", field="relu")
    if how.head in (ANALYTIC, TRAIN) and (how.centre or how.relu):
        raise ConfigInvalid(
            f"the {'trained' if how.head == TRAIN else how.head} head centres and rectifies by itself",
            fix="leave --centre and --relu out, or say --head none",
            field="head",
            value=how.head,
        )


def behind(how: HeadSteps, model: ModelProto, rows: Rows) -> EncoderWithHead:
    """Compute from `rows` of features what makes them non-negative, and put it behind the model that answers them."""
    check_head_steps(how)
    if how.head in (ANALYTIC, TRAIN):
        fitted = fit_head(rows)
        return _analytic(model, with_trained_front(fitted, rows) if how.head == TRAIN else fitted)
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
    return EncoderWithHead(canonical(model), lambda x: _through(steps, x), activation)


def _analytic(model: ModelProto, fitted: FittedHead) -> EncoderWithHead:
    weight = fitted.head.weight.astype(np.float16).astype(np.float32)  # as the bundle stores it
    fitted = replace(fitted, head=replace(fitted.head, weight=weight))
    if fitted.takes == "roots":  # of other photos a feature might go below zero
        model = activate(model)
    whole = canonical(with_root_head(model, fitted.head, takes=fitted.takes))
    taken = {"roots": "sqrt(features)", "directions": "features / |features|", "features": "features"}[fitted.takes]
    formula = f"relu({taken} weight + bias)^{fitted.head.power:g}"
    return EncoderWithHead(whole, fitted.embed, formula, fitted)


def _through(steps: list[Callable[[Rows], Rows]], rows: Rows) -> Rows:
    for step in steps:
        rows = step(rows)
    return rows


def read_head(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Read `weight` and `bias` from an .npz or .safetensors file."""
    try:
        tensors = _tensors(path)
    except (OSError, ValueError, KeyError) as error:
        raise DataInvalid(
            f"{path} cannot be read ({error})", fix="give analytic, train, none, or an .npz or .safetensors file"
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
        return dict(safetensors_file.read(path).arrays)
    if path.suffix != ".npz":
        raise ValueError(f"{path.suffix or 'no suffix'} is neither .npz nor .safetensors")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


# The analytic head with its first columns trained on the photos' features: `nonneg wrap --head train`, with torch.


TRAINED, TRAINED_SHARE = 192, 4  # columns that learn: at most so many, and one of so many


def with_trained_front(fitted: FittedHead, rows: Rows) -> FittedHead:
    """Teach a head's columns in front, at every nested length, who is near whom by the features."""
    with needing("--head train", extra="training"):
        from nonneg_export.adapt.trained_front import train_front
    front = min(TRAINED, fitted.head.dimensions // TRAINED_SHARE)
    head = train_front(fitted.head, head_input(rows, fitted.takes), front=front)
    return replace(fitted, head=head, trained=front)
