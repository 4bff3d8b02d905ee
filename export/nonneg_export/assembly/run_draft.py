"""A training run as a draft of a bundle: its encoder, its projector as layers, its text tower."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from onnx import ModelProto
from torch import nn

from nonneg_core.arrays import Rows
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.terminal.installing import needing
from nonneg_export.assembly.calibrate_and_seal import Draft, HeadFileOptions
from nonneg_export.assembly.text_towers import TextEncoder
from nonneg_export.graphs.canonical import canonical
from nonneg_export.graphs.columns import activate
from nonneg_export.graphs.convert import in_torch, text_to_onnx, to_onnx
from nonneg_export.graphs.head_layers import with_head, with_root_head
from nonneg_export.share.model_card import About
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.heads.feature_head import Takes
from nonneg_runtime.heads.head import Head
from nonneg_runtime.heads.moments import Spread
from nonneg_training.data.image_folder import ImageFolder
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.text_tower import PAD, START, byte_token
from nonneg_training.loop.training_checkpoint import load_encoder, load_text, read_checkpoint, run_settings
from nonneg_training.onnx_backbone import is_onnx_file
from nonneg_training.onnx_backbone.onnx_features import features_graph
from nonneg_training.setup.run_settings import RunSettings


def draft(run: Path, about: About, *, relu: bool = False) -> Draft:
    """Return the encoder of a run folder, as ONNX, with torch's answers to compare it with."""
    encoder = load_encoder(run)
    settings = run_settings(run)
    head = head_of(encoder) if settings.method == "head" and encoder.norm is None else None
    if head is not None:
        round_weights(encoder)
    model = _graph(encoder, settings, apart=head is not None)
    return Draft(
        model=activate(model) if relu else model,
        view=encoder.view,
        name=about.name,
        version=about.version,
        activation=f"relu({encoder.activation})" if relu else encoder.activation,
        provenance=_provenance(settings, about),
        description=f"{_backbone(settings)}, {settings.method}, {settings.loop.epochs} epochs",
        nested=bool(settings.loss.lengths),
        head=None
        if head is None
        else HeadFileOptions(head.power, takes(encoder), settings.head.trained or encoder.dimensions, _spread(run)),
        reference=in_torch(encoder, relu=relu),
        evaluation=_seen_in_training(encoder.view),
        text=text_of_run(run, settings.text.length, relu=relu) if settings.method == "two-tower" else None,
    )


def _seen_in_training(view: View) -> Callable[[Path], Pixels]:
    """Return what the evaluation during training sees of a photo, by training's own reader."""

    def look(path: Path) -> Pixels:
        with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
            shutil.copyfile(path, Path(place, path.name))
            pixels: Pixels = ImageFolder(Path(place)).pixels([0], view)[0]
        return pixels

    return look


def _graph(encoder: EncoderModule, settings: RunSettings, *, apart: bool) -> ModelProto:
    """Return the encoder's graph; a head that is kept apart stands behind the backbone's, under names of its own."""
    if is_onnx_file(settings.model.backbone):
        features = features_graph(Path(settings.model.backbone), settings.onnx, encoder.view.size)
    elif apart:
        features = to_onnx(_Features(encoder), encoder.view.size)
    else:
        return to_onnx(encoder, encoder.view.size)
    return canonical(with_projector(features, encoder, stored=np.float16 if apart else np.float32))


class _Features(torch.nn.Module):
    """uint8 (batch, h, w, 3) -> the backbone's features."""

    def __init__(self, encoder: EncoderModule) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.encoder.features(pixels)


def _spread(run: Path) -> Spread | None:
    """Return what the head was computed from, where it was."""
    state = read_checkpoint(run).tensors
    if "spread_mean" not in state:
        return None
    return Spread(state["spread_mean"].numpy(), state["spread_covariance"].numpy(), int(state["spread_count"]))


def _backbone(settings: RunSettings) -> str:
    return Path(settings.model.backbone).name if is_onnx_file(settings.model.backbone) else settings.model.backbone


def _provenance(settings: RunSettings, about: About) -> Provenance:
    start = settings.model.pretrained or (_backbone(settings) if is_onnx_file(settings.model.backbone) else None)
    return Provenance(
        weights=f"trained by nonneg ({settings.method}, {_backbone(settings)}"
        + (f", from {start})" if start else ", from scratch)"),
        weights_license=about.weights_license,
        data=Path(settings.data.source).name,
        data_license=about.data_license,
    )


# The projector that a run trained, as layers behind an ONNX encoder.

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
    """Return the encoder's one layer and its power; None where it has more layers, or another activation."""
    if len(encoder.hidden) or OPERATORS.get(encoder.activation) != "Relu":
        return None
    weight, bias = folded(*encoder.output_layers())
    return Head(np.ascontiguousarray(weight.T), bias, encoder.power)


def takes(encoder: EncoderModule) -> Takes:
    """Return what the head takes of the features."""
    return "roots" if encoder.root else "features"


def round_weights(encoder: EncoderModule) -> None:
    """Give the last layer the weights that a head's file holds, which are float16."""
    with torch.no_grad():
        encoder.output.weight.copy_(encoder.output.weight.half().float())


def folded(linear: nn.Linear, norm: nn.BatchNorm1d | None) -> tuple[Rows, Rows]:
    """Weight and bias of the linear layer that does what both do in evaluation."""
    weight, bias = _arrays(linear)
    if norm is None:
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight.detach().numpy() / np.sqrt(norm.running_var.numpy() + norm.eps)  # (D,)
    shift = norm.bias.detach().numpy() - norm.running_mean.numpy() * scale
    return (weight * scale[:, None]).astype(np.float32), (bias * scale + shift).astype(np.float32)


def _arrays(linear: nn.Linear) -> tuple[Rows, Rows]:
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()


# The text tower of a two-tower run as ONNX, with its bytes as a tokenizer of the package `tokenizers`.


def text_of_run(run: Path, length: int, *, relu: bool) -> TextEncoder:
    """Return the tower that a run trained beside its image encoder; `relu`: behind both."""
    tower = load_text(run)
    graph = text_to_onnx(tower, length)
    return TextEncoder(activate(graph) if relu else graph, byte_tokenizer(), length, PAD, in_torch(tower, relu=relu))


def byte_tokenizer() -> str:
    """Return the tokenizer's file: a token for each byte of UTF-8 behind one that begins the text."""
    with needing("a two-tower run", extra="text"):
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
    letters = {letter: byte_token(byte) for byte, letter in byte_letters().items()}
    made = Tokenizer(models.BPE(vocab={"<pad>": PAD, "<start>": START, **letters}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.post_processor = processors.TemplateProcessing(single="<start> $A", special_tokens=[("<start>", START)])
    return str(made.to_str())


def byte_letters() -> dict[int, str]:
    """Map bytes to the letters of the package: printable ones stand for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}
