"""An image tower that others published: a graph from uint8 pixels to features, and how it sees photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto
from PIL import Image

from nonneg_core.pixels.view import Pixels, View
from nonneg_export.published.licence import NOT_STATED
from nonneg_export.texts.text_towers import TextEncoder
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling

USUAL_VIEW = View(size=224, crop=0.875, fit="cover", interpolation="bicubic")  # where nothing says it
Reference = Callable[[Pixels], NDArray[np.float32]]
OriginalPixels = Callable[[Image.Image], NDArray[np.float32]]  # a photo -> (size, size, 3), 0 to 255


@dataclass(frozen=True)
class TowerOverrides:
    """What a person says in place of what a model's own files say; None leaves it to them.

    file: the name or the precision of an ONNX file, or `torch`. seen: fields of the view.
    """

    output: str | None = None
    pool: Pool | None = None
    file: str | None = None
    preprocessing: tuple[View, Scaling] | None = None
    seen: dict[str, object] = field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    accepted: str | None = None
    text: bool = True  # take the text tower, too
    limit: int = 2**32

    @property
    def otherwise(self) -> View | None:
        """Return the view to take where a model's own is not understood: there is one where its size is said."""
        return USUAL_VIEW if "size" in self.seen else None

    @property
    def sees_otherwise(self) -> bool:
        """Return whether anything was said of how photos are seen."""
        return bool(self.preprocessing or self.seen or self.mean or self.std)

    def applied(self, view: View, scaling: Scaling) -> tuple[View, Scaling]:
        """Return the model's own preprocessing with what was said in its place."""
        if self.preprocessing is not None:
            view, scaling = self.preprocessing
        view = View.model_validate({**view.model_dump(), **self.seen})
        return view, Scaling(scaling.factor, self.mean or scaling.mean, self.std or scaling.std)


@dataclass(frozen=True, eq=False)
class Tower:
    """pixels -> features; `notes` are what a person should read, `reference` is what the original answers."""

    model: ModelProto
    view: View
    weights: str
    licence: str = NOT_STATED
    notes: tuple[str, ...] = ()
    reference: Reference | None = None
    text: TextEncoder | None = None  # the model's second tower
    fetched: dict[str, str] | None = None  # sha256 of what came from a hub
    original_pixels: OriginalPixels | None = None  # how the original sees a photo
