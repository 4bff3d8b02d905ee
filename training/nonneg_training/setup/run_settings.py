"""One record of everything a run is told: read from a TOML file and flags, and written beside the checkpoint."""

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nonneg_core.errors import ConfigInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.pixels.view import Interpolation


def read_toml(path: Path) -> dict[str, Any]:
    """Return the record in a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read ({error.strerror})", fix="check the path", value=str(path)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} is not TOML ({error})", fix="mend that line", value=str(path)) from error


def to_toml(record: dict[str, Any]) -> str:
    """Return scalars and lists first, then a table a section; JSON's scalars are TOML's."""
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in record.items()
        if not isinstance(value, dict)
    ]
    for key, value in record.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", to_toml(value).rstrip("\n")]
    return "\n".join(lines) + "\n"


SETTINGS_FILE = "config.toml"
CHANGE = "change it; `nonneg train --help` lists the options"
Share = tuple[float, float]
Channels = tuple[float, float, float]


class SettingsSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Data(SettingsSection):
    """Which images."""

    source: str = Field(
        default="digits",
        description="digits, cifar10, cifar100, stl10, fashion-mnist, dsprites; or the path of a folder with a "
        "folder of images a class, of a CSV with captions, or of tar shards: train-{000..009}.tar, also at http(s)://; "
        "NAME:test is a named data set's other images",
    )
    root: Path | None = Field(default=None, description="where a named data set lies; default: $NONNEG_DATA")
    limit: int | None = Field(default=None, ge=2, description="so many images, drawn by chance and always the same")
    only: tuple[str, ...] = Field(default=(), description="images of these classes only")
    images: int | None = Field(default=None, ge=1, description="shards at http(s): images an epoch")
    classes: int | None = Field(default=None, ge=1, description="shards at http(s): how many labels, for ce and nce")
    shuffle: int = Field(default=1000, ge=1, description="shards at http(s): images that wait in memory to be drawn")
    max_broken: int = Field(default=100, ge=0, description="broken images to skip before the run stops")


class Views(SettingsSection):
    """How two views of an image are drawn for training, and the one view it is embedded by."""

    size: int | None = Field(
        default=None, ge=4, le=1024, description="side in pixels; default: the data's or backbone's"
    )
    crop: Share = Field(default=(0.08, 1.0), description="share of the area a random crop covers")
    jitter: float = Field(default=0.8, ge=0, le=1, description="probability of the colour jitter")
    brightness: float = Field(default=0.8, ge=0, le=1, description="strength in the jitter")
    contrast: float = Field(default=0.8, ge=0, le=1, description="strength in the jitter")
    saturation: float = Field(default=0.8, ge=0, le=1, description="strength in the jitter")
    hue: float = Field(default=0.2, ge=0, le=0.5, description="strength in the jitter, share of the circle")
    grey: float = Field(default=0.2, ge=0, le=1, description="probability of grey")
    blur: float = Field(default=0.5, ge=0, le=1, description="probability of a Gaussian blur")
    flip: float = Field(default=0.5, ge=0, le=1, description="probability of a horizontal flip")
    centre: float = Field(default=1.0, gt=0, le=1, description="share of the short side in the evaluation view")
    interpolation: Interpolation = Field(default="bicubic", description="of the evaluation view")
    pipeline: Literal["batched", "torchvision"] = Field(
        default="batched", description="batched: a whole batch at once; torchvision: transforms v2, image by image"
    )
    fit: Literal["cover", "squash", "contain"] = Field(
        default="cover", description="evaluation view: the central square; all, squeezed; or all, padded"
    )


class ModelSettings(SettingsSection):
    """Backbone, projector, activation."""

    backbone: str = Field(default="tiny-cnn", description="see the list above")
    pretrained: str | None = Field(
        default=None, description="name of torchvision weights, for example DEFAULT; or the folder of a run"
    )
    frozen: bool = Field(
        default=False, description="only the projector learns, from the backbone's cached, standardised features"
    )
    stem: Literal["auto", "small", "padded", "imagenet"] = Field(
        default="auto",
        description="auto: small up to 64 px; padded: small with a padding of 2, as solo-learn's ResNets",
    )
    normalise: Literal["backbone", "cifar10", "cifar100"] = Field(
        default="backbone", description="whose mean and deviation pixels are standardised by"
    )
    hidden: tuple[int, ...] | None = Field(
        default=None, description="widths of the projector's hidden layers; default: 256, none for a head"
    )
    dimensions: int = Field(
        default=128,
        ge=0,
        le=1_000_000,
        description="D, the width of the embedding; 0: no projector, the features themselves",
    )
    activation: str | None = Field(default=None, description="default: the method's own")
    root: bool = Field(default=False, description="a head on the square roots of pooled, non-negative features")
    power: float = Field(default=1.0, gt=0, le=1, description="the activated features are raised to this")
    batch_norm: bool | None = Field(
        default=None,
        description="batch norm before the activation keeps dimensions alive; default: yes, but not in a head",
    )


class Onnx(SettingsSection):
    """What an ONNX encoder, as a frozen backbone, expects as input, and which of its outputs are the features."""

    preprocessor: Path | None = Field(
        default=None, description="a Hugging Face preprocessor_config.json: sets views.* and the next three"
    )
    factor: float = Field(default=1 / 255, gt=0, description="pixels 0..255 are multiplied by this,")
    mean: Channels = Field(default=(0.485, 0.456, 0.406), description="this is subtracted,")
    std: Channels = Field(default=(0.229, 0.224, 0.225), description="and the rest divided by this")
    output: str | None = Field(default=None, description="the output with the features, if it has several")
    pool: Literal["cls", "mean"] | None = Field(default=None, description="how tokens or a feature map become one row")
    digest: str | None = Field(default=None, description="filled in: sha256 of the file; another one is refused")


class Loss(SettingsSection):
    """What is minimised."""

    temperature: float = Field(default=0.2, gt=0, le=100, description="of InfoNCE and label positives")
    lengths: tuple[int, ...] = Field(default=(), description="nested lengths: the loss is the mean over these prefixes")
    radius: float = Field(default=3.0, gt=0, description="longest vector of the spectral methods")
    bias: bool | None = Field(
        default=None, description="ce and nce: the classes have a bias; default: yes with ce, no with nce"
    )
    name: str | None = Field(default=None, description="cl and ncl: a plug-in's loss; default: InfoNCE")
    start: Literal["symmetric", "positive"] | None = Field(
        default=None,
        description="ce and nce: class weights are drawn around zero, or above it; default: symmetric with ce, "
        "positive with nce",
    )


class HeadSettings(SettingsSection):
    """The head method: a weight a loss (0: off), and what they need to know."""

    start: Literal["random", "centred", "principal", "both", "rotated"] = Field(
        default="random",
        description="rows of the head at the start: random directions; one a feature (D = the backbone's width); "
        "each principal component and its opposite; both: these in front of one a feature; rotated: half-whitened "
        "components turned so that their positive parts say most, and their opposites",
    )
    exponent: float = Field(default=0.42, ge=0, le=0.5, description="rotated: how far components are whitened; .5: all")
    components: int = Field(default=1024, ge=1, description="rotated: principal components that are used")
    names: int = Field(default=0, ge=0, description="rotated: columns along the backbone's own classes")
    trained: int | None = Field(default=None, ge=1, description="only the first so many columns learn; default: all")
    teachers: tuple[str, ...] = Field(
        default=(),
        description="backbones whose half-whitened features are the neighbours to follow; default: the backbone's own",
    )
    learn_temperatures: bool = Field(default=False, description="the head's softmaxes have a temperature a length")
    relative: bool = Field(default=False, description="optimiser.lr is in units of the head's root mean square")
    similarity: float = Field(default=0.0, ge=0, description="follow the backbone's similarities (squared error)")
    neighbours: float = Field(
        default=1.0, ge=0, description="follow the teacher's neighbourhoods (divergence of softmaxes)"
    )
    neighbour_temperature: float = Field(
        default=0.1, gt=0, description="of those softmaxes; lower: only the nearest count"
    )
    contrastive: float = Field(default=0.0, ge=0, description="cached random views of an image are positives")
    labels: float = Field(
        default=0.0, ge=0, description="images of one class are positives; of a frozen backbone's pairs, if not 0"
    )
    reconstruction: float = Field(default=0.0, ge=0, description="decode the features")
    revive: float = Field(default=0.0, ge=0, description="dead dimensions explain what is left over")
    sparsity: float = Field(default=0.0, ge=0, description="fewer active dimensions")
    top_k: int | None = Field(default=None, ge=1, description="active dimensions kept in training")
    top_k_of: Literal["sample", "batch"] = Field(default="sample", description="keep k of each vector, or k a vector")
    anneal_from: int = Field(default=0, ge=0, description="start with this many and come down to top_k")
    anneal_share: float = Field(default=0.7, ge=0, le=1, description="share of the run that takes")
    dead_after: int = Field(default=100, ge=1, description="steps without firing that make a dimension dead")
    revive_k: int = Field(default=64, ge=1, description="dead dimensions that may help each image")
    views: int = Field(default=0, ge=0, description="cached random views an image, beside the evaluation view")
    views_seed: int | None = Field(
        default=None, ge=0, description="draws the cached views, so that runs share them; default: the run's seed"
    )
    cache: Path | None = Field(default=None, description="folder of the feature cache; default: $NONNEG_FEATURE_CACHE")


class TextSettings(SettingsSection):
    """The text tower of the two-tower method."""

    width: int = Field(default=128, ge=32, multiple_of=32, description="of the text transformer")
    layers: int = Field(default=4, ge=1, description="of the text transformer")
    length: int = Field(default=96, ge=2, description="bytes of a caption that are read, and one")
    max_scale: float = Field(default=100.0, gt=1, description="cap of the learnt 1 / temperature; lower is sparser")


class Optimiser(SettingsSection):
    """How."""

    name: Literal["sgd", "lars", "adamw"] = Field(default="adamw", description="sgd, lars or adamw")
    lr: float = Field(default=1e-3, gt=0, description="peak of the learning rate")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="AdamW's first beta")
    weight_decay: float = Field(default=1e-4, ge=0, description="not of biases and norms")
    eta: float = Field(default=0.02, gt=0, description="LARS's trust coefficient; its ratio is clipped as solo-learn's")
    warmup: float = Field(default=0.05, ge=0, lt=1, description="share of the steps in which the rate rises")


class LoopSettings(SettingsSection):
    """How long and how it is run."""

    epochs: int = Field(default=10, ge=1, description="times through the images")
    steps: int = Field(default=0, ge=0, description="steps, in place of epochs; 0: as many as the epochs have")
    batch: int = Field(default=128, ge=1, description="images of all processes together")
    accumulate: int = Field(default=1, ge=1, description="batches a step; each has its own negatives")
    save_every: int = Field(default=0, ge=0, description="steps between checkpoints; 0: at the end of each epoch")
    report_every: int = Field(default=1, ge=1, description="steps between rows of metrics.csv")
    loggers: tuple[str, ...] = Field(default=(), description="tensorboard, or a plug-in's")
    monitor_every: int = Field(default=0, ge=0, description="steps between kNN readings; 0: at the end of each epoch")
    monitor_images: int = Field(default=1000, ge=2, description="test images (else training images) a reading embeds")
    precision: Literal["fp32", "bf16", "fp16"] = Field(default="fp32", description="autocast")
    device: str = Field(default="auto", description="auto: cuda if there is one, else cpu")
    compile: bool = Field(default=False, description="torch.compile the step")
    threads: int = Field(default=0, ge=0, description="torch's threads; 0: as many as it likes")


class HealthSettings(SettingsSection):
    """When to give up."""

    collapse_steps: int = Field(default=100, ge=0, description="steps at the loss of collapse; 0: never")
    dead_share: float = Field(default=0.95, ge=0, le=1, description="largest share of dead dimensions")
    zero_share: float = Field(default=0.5, ge=0, le=1, description="largest share of all-zero vectors")


class RunSettings(SettingsSection):
    """A run."""

    method: str = Field(default="ncl", description="see the list above")
    seed: int = Field(default=0, ge=0, description="the same seed gives the same weights")
    plugins: tuple[str, ...] = Field(default=(), description="filled in: what the run took of plug-ins; none is run")
    options: dict[str, bool | int | float | str] = Field(
        default={}, description="what a plug-in's method asks for: --set options.margin=0.3"
    )
    data: Data = Data()
    views: Views = Views()
    model: ModelSettings = ModelSettings()
    onnx: Onnx = Onnx()
    loss: Loss = Loss()
    head: HeadSettings = HeadSettings()
    text: TextSettings = TextSettings()
    optimiser: Optimiser = Optimiser()
    loop: LoopSettings = LoopSettings()
    health: HealthSettings = HealthSettings()


def read_settings(path: Path | None, changes: dict[str, Any]) -> RunSettings:
    """Return the file's settings, changed by `changes` (dotted name -> value)."""
    record: dict[str, Any] = {} if path is None else read_toml(path)
    for name, value in changes.items():
        *sections, key = name.split(".")
        place = record
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigInvalid(f"{name}: {section} is not a section", fix="see `nonneg train --help`", field=name)
        place[key] = value
    if path is not None and changes:
        validate(read_toml(path), str(path))  # what is wrong there is not the options' fault
        return validate(record, f"{path} with the options")
    return validate(record, str(path) if path else "the options")


def validate(record: dict[str, Any], where: str) -> RunSettings:
    """Return the record, checked once; the first thing wrong is named."""
    try:
        return RunSettings.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        value = first["input"] if isinstance(first["input"], (str, int, float)) else None
        unknown = first["type"] == "extra_forbidden"
        message = "not a setting" if unknown else first["msg"].lower()
        raise ConfigInvalid(
            f"{where}: {field}={first['input']!r}: {message}",
            fix=_known(first["loc"]) if unknown else CHANGE,
            field=field,
            value=value,
        ) from error


def _known(place: tuple[int | str, ...]) -> str:
    """Return what could have been meant in the place of a name that does not exist."""
    *sections, name = (str(part) for part in place)
    fields = _fields(sections[0]) if sections else RunSettings.model_fields
    close = [".".join([*sections, match]) for match in difflib.get_close_matches(name, fields, n=1)]
    close += [f"{section}.{name}" for section in RunSettings.model_fields if name in _fields(section)]
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{hint}Known{' in ' + '.'.join(sections) if sections else ''}: {', '.join(fields)}"


def _fields(section: str) -> dict[str, Any]:
    """Return the settings of a section; a setting of no section has none."""
    fields: dict[str, Any] = getattr(RunSettings.model_fields[section].annotation, "model_fields", {})
    return fields


def write_settings(path: Path, settings: RunSettings) -> None:
    """Write TOML that `read_settings` reads back to the same record."""
    with atomic_write(path) as temporary:
        temporary.write_text(to_toml(settings.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
