"""From settings to an encoder; and the settings with everything filled in that was left to choose."""

from pathlib import Path

from nonneg_core.errors import ConfigInvalid
from nonneg_core.terminal.installing import needing
from nonneg_training.data import Images, ShardStream
from nonneg_training.encoder.backbone import PIXELS, Backbone
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.named_backbones import RESNETS, open_backbone
from nonneg_training.encoder.torchvision_backbones import pad_stem
from nonneg_training.loop import settings_checks
from nonneg_training.onnx_backbone import TAKE_OVER, encoder_file, is_onnx_file
from nonneg_training.setup import plugins
from nonneg_training.setup.plugins import Use
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import RunSettings
from nonneg_training.views import evaluation_view

SMALL = 64  # up to this side a network starts with the 3x3 stem


def resolve(settings: RunSettings, images: Images | ShardStream, world: ProcessGroup) -> RunSettings:
    """Return the settings of this run on this data: nothing is left to default, so that the run folder stands alone."""
    chosen_backbone = {"backbone": encoder_file(settings.model.backbone)}
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=chosen_backbone)})
    plugins.check_loaded(_uses(settings), settings.plugins)
    settings_checks.check_names(settings)
    settings_checks.check_foreign(settings)
    if is_onnx_file(settings.model.backbone):
        with needing("an ONNX encoder as backbone", extra="export"):
            from nonneg_training.onnx_backbone.onnx_features import resolve_onnx
        settings = resolve_onnx(settings)
    model, method = settings.model, settings.method
    name = model.activation or ("identity" if method in settings_checks.CONTROL_METHODS else "relu")
    settings_checks.check_activation(method, name)
    if isinstance(images, ShardStream):
        settings_checks.check_stream(settings, images)
    else:
        settings_checks.check_labels(settings, images)
    settings_checks.check_batch(settings, len(images), world)
    settings_checks.check_method(settings, images)
    size = settings.views.size or images.side or open_backbone(model.backbone, small=False).size
    chosen = {
        "activation": name,
        "stem": ("small" if size <= SMALL else "imagenet") if model.stem == "auto" else model.stem,
        "hidden": (() if method == "head" else (256,)) if model.hidden is None else model.hidden,
        "batch_norm": method != "head" if model.batch_norm is None else model.batch_norm,
    }
    views = settings.views.model_copy(update={"size": size})
    settings = settings.model_copy(update={"views": views, "model": model.model_copy(update=chosen)})
    return settings.model_copy(update={"plugins": plugins.record(_uses(settings))})


def _uses(settings: RunSettings) -> list[Use]:
    """List the names that may be a plug-in's; the encoder needs the first two of them."""
    uses = [
        Use("model.backbone", "backbone", settings.model.backbone),
        Use("model.activation", "activation", settings.model.activation or ""),
        Use("method", "method", settings.method),
        Use("loss.name", "loss", settings.loss.name or ""),
    ]
    return uses + [Use("loop.loggers", "logger", name) for name in settings.loop.loggers]


def stem_report(given: RunSettings, resolved: RunSettings) -> str | None:
    """Say which stem `auto` took, and what it costs; nothing of a backbone that has one stem."""
    small = resolved.model.stem == "small"
    if given.model.stem != "auto" or given.model.backbone not in (*RESNETS, "slim-resnet") or not small:
        return None
    return (
        f"model.stem = auto took small, as up to {SMALL} px (here {resolved.views.size}). Behind it "
        "layers see 16 times as many positions as behind model.stem=imagenet, which is faster."
    )


def build_encoder(settings: RunSettings, *, pretrained: bool = True) -> EncoderModule:
    """Build the encoder of resolved settings; without `pretrained` nothing is fetched: its weights are loaded next."""
    model, size = settings.model, settings.views.size
    plugins.check_loaded(_uses(settings)[:2], settings.plugins)
    assert size is not None
    assert model.activation is not None
    return EncoderModule(
        _backbone(settings, size, pretrained=pretrained),
        evaluation_view(settings.views, size),
        dimensions=model.dimensions or None,
        hidden=model.hidden or (),
        activation=model.activation,
        batch_norm=bool(model.batch_norm),
        root=model.root,
        power=model.power,
        standardised=model.frozen,
    )


def _backbone(settings: RunSettings, size: int, *, pretrained: bool) -> Backbone:
    model = settings.model
    if is_onnx_file(settings.model.backbone):
        with needing("an ONNX encoder as backbone", extra="export"):
            from nonneg_training.onnx_backbone.onnx_features import OnnxBackbone
        return OnnxBackbone(Path(model.backbone), settings.onnx, size)
    if model.pretrained and Path(model.pretrained).is_file():
        raise ConfigInvalid(
            f"model.pretrained={model.pretrained} is a file, and weights by name or the folder of a run are asked for",
            fix=TAKE_OVER,
            field="model.pretrained",
            value=model.pretrained,
        )
    named = model.pretrained if pretrained and not _is_run(model.pretrained) else None
    backbone = open_backbone(model.backbone, small=model.stem in ("small", "padded"), pretrained=named, size=size)
    if model.stem == "padded":
        pad_stem(backbone)
    if model.normalise != "backbone":
        backbone.mean, backbone.std = PIXELS[model.normalise]
    return backbone


def pretrained_run(settings: RunSettings) -> Path | None:
    """Return the run folder whose backbone is to be the start, if that is what `model.pretrained` names."""
    name = settings.model.pretrained
    return Path(name) if name and _is_run(name) else None


def _is_run(name: str | None) -> bool:
    return bool(name) and (Path(str(name)) / CONFIG).is_file()
