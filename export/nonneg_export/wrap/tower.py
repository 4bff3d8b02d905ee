"""An image tower that others published: its graph and view, its output, and the options that apply to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto
from PIL import Image

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.assembly.text_towers import TextEncoder
from nonneg_export.share.model_card import NOT_STATED
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling

USUAL_VIEW = View(size=224, crop=0.875, fit="cover", interpolation="bicubic")  # where nothing says it
Reference = Callable[[Pixels], Floats]
OriginalPixels = Callable[[Image.Image], Floats]  # a photo -> (size, size, 3), 0 to 255


@dataclass(frozen=True)
class TowerOverrides:
    """What a person says in place of what a model's own files say; None leaves it to them.

    file: the name or the precision of an ONNX file, or `torch`. view_fields: fields of the view.
    """

    output: str | None = None
    pool: Pool | None = None
    file: str | None = None
    preprocessing: tuple[View, Scaling] | None = None
    view_fields: dict[str, object] = field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    accepted: str | None = None
    text: bool = True  # take the text tower, too
    limit: int = 2**32

    @property
    def otherwise(self) -> View | None:
        """Return the view to take where a model's own is not understood: there is one where its size is said."""
        return USUAL_VIEW if "size" in self.view_fields else None

    @property
    def sees_otherwise(self) -> bool:
        """Return whether anything was said of how photos are seen."""
        return bool(self.preprocessing or self.view_fields or self.mean or self.std)

    def applied(self, view: View, scaling: Scaling) -> tuple[View, Scaling]:
        """Return the model's own preprocessing with what was said in its place."""
        if self.preprocessing is not None:
            view, scaling = self.preprocessing
        view = View.model_validate({**view.model_dump(), **self.view_fields})
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


# Which output of an architecture is its picture of an image, by the `model_type` of a configuration.

TWO_TOWERS = ("clip", "siglip", "siglip2", "align", "altclip", "chinese_clip", "clipseg", "metaclip_2")
CLS = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn", "dpt", "pvt")
MEAN = ("ijepa", "vit_mae", "swin", "swinv2", "hiera", "pvt_v2", "mgp-str")
EITHER = ("beit", "data2vec-vision")  # their configuration says which


@dataclass(frozen=True)
class Pooling:
    """Names of outputs in the order they are taken in, and how tokens become one row.

    of_tokens: how, where there is none of these outputs, if that is known.
    """

    outputs: tuple[str, ...]
    pool: Pool | None
    of_tokens: Pool | None = None


def pooling(config: dict[str, Any]) -> Pooling:
    """Return how the image of such a model is pooled."""
    kind = str(config.get("model_type", ""))
    if kind in EITHER and config.get("use_mean_pooling", True):  # of the patches, then normalised
        return Pooling(("pooler_output",), None, of_tokens="mean")
    if kind in (*CLS, *EITHER):  # its pooler, if there is one, belongs to a classifier
        return Pooling(("last_hidden_state",), "cls")
    if kind in MEAN:
        return Pooling(("last_hidden_state",), "mean")
    return Pooling(("image_embeds", "pooler_output"), None)


def has_two_towers(config: dict[str, Any]) -> bool:
    """Return whether the model embeds words, too."""
    return config.get("model_type") in TWO_TOWERS or ("vision_config" in config and "text_config" in config)


# Options that a kind of model has no use for are refused, so that none is accepted and ignored.

OF_OUTPUTS = "an ONNX file or a model of transformers"
OF_NAMES = "a model that is fetched by its name"
SERVES = {
    "--file": "a repository of the hub",
    "--input": "an ONNX file",
    "--output": OF_OUTPUTS,
    "--pool": OF_OUTPUTS,
    "--no-text": "a model that may have a text tower",
    "--accept-license": OF_NAMES,
    "--max-download": OF_NAMES,
}


def refuse_unused(what: str, given: Mapping[str, str | float | bool | None]) -> None:
    """Raise ConfigInvalid where an option was given that means nothing for this; `given`: values by option."""
    for flag, value in given.items():
        if value in (None, False):
            continue
        option = flag if value is True else f"{flag} {value}"
        raise ConfigInvalid(
            f"{option} is for {SERVES[flag]}, not for {what}",
            fix="leave it out",
            field=flag.removeprefix("--").replace("-", "_"),
            value=value,
        )
