"""From an ONNX file and what is said about it to an encoder with a non-negative output."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.activations import collect
from nonneg_export.canonical import canonical, save
from nonneg_export.columns import activate, centre
from nonneg_export.head import with_head
from nonneg_export.photo_folder import Photos
from nonneg_training.onnx_backbone.adapting import Pool, Scaling, adapt
from nonneg_training.onnx_backbone.onnx_graph import load

ENOUGH_FOR_CENTRE = 1000  # photos: the mean does not move any more


@dataclass(frozen=True)
class Wrapping:
    """What to do with an encoder."""

    encoder: Path
    view: View
    scaling: Scaling
    input_name: str | None = None
    output_name: str | None = None
    pool: Pool | None = None
    head: Path | None = None
    centre: bool = False
    relu: bool = False

    @property
    def activation(self) -> str:
        """How the output became non-negative."""
        return "relu(features - mean)" if self.centre else "relu" if self.relu else "the encoder's own"


def wrapped(how: Wrapping, photos: Photos) -> ModelProto:
    """The encoder with scaling before it and head, centre and ReLU behind it."""
    if how.centre and how.relu:
        raise ConfigInvalid("--centre already ends in a ReLU", fix="leave --relu out", field="relu")
    model = adapt(
        load(how.encoder),
        how.view.size,
        how.scaling,
        input_name=how.input_name,
        output_name=how.output_name,
        pool=how.pool,
    )
    if how.head is not None:
        model = with_head(model, *read_head(how.head))
    if how.centre:
        model = centre(model, _mean(model, how.view, photos.every(ENOUGH_FOR_CENTRE)))
    return canonical(activate(model) if how.relu else model)


def read_head(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """`weight` and `bias` from an .npz or .safetensors file."""
    try:
        tensors = _tensors(path)
    except (OSError, ValueError, KeyError) as error:
        raise DataInvalid(f"{path} cannot be read ({error})", fix="give an .npz or .safetensors file") from error
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


def _mean(model: ModelProto, view: View, photos: Photos) -> NDArray[np.float32]:
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        plain = Path(place, "plain.onnx")
        save(model, plain)
        found = collect(plain, photos, view, Path(place, "activations"))
        return np.asarray(found.values.mean(axis=0, dtype=np.float64), dtype=np.float32)
