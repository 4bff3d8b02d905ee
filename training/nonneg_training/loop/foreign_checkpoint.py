"""Encoders of solo-learn and of NCL's authors as run folders: `backbone.*` and `projector.*` of a checkpoint."""

import collections
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from nonneg_core.errors import CheckpointInvalid, StorageFailed
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.loop.build_encoder import build_encoder
from nonneg_training.loop.optimiser import MixedPrecision, build_optimiser
from nonneg_training.loop.settings_checks import CONTROL_METHODS, check_activation
from nonneg_training.loop.training_checkpoint import restore, write_checkpoint
from nonneg_training.methods.view_methods import Contrastive
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import ModelSettings, RunSettings, write_settings

Tensors = dict[str, Tensor]
BACKBONE, PROJECTOR = "backbone.", "projector."


def adopt(path: Path, settings: RunSettings, out: Path) -> EncoderModule:
    """Write a run folder with the encoder of a checkpoint; nothing is trained. Returns the encoder."""
    if (out / CONFIG).exists():
        raise StorageFailed(f"{out} holds a run already", fix="remove it, or choose another --out", value=str(out))
    state = read_tensors(path)
    model = _model(state, path, settings)
    check_activation(settings.method, str(model.activation))
    size = settings.views.size or (32 if model.stem == "padded" else 224)
    views = settings.views.model_copy(update={"size": size})
    settings = settings.model_copy(update={"model": model, "views": views})
    encoder = build_encoder(settings, pretrained=False)
    restore(encoder, _renamed(state), path)
    out.mkdir(parents=True, exist_ok=True)
    method = Contrastive(encoder, settings.loss)
    write_settings(out / CONFIG, settings)
    optimiser = build_optimiser(method, settings.optimiser, method.pace)
    write_checkpoint(out, 0, method, optimiser, MixedPrecision("fp32", torch.device("cpu")))
    return encoder.eval()


def read_tensors(path: Path) -> Tensors:
    """Return backbone and projector of a checkpoint; what else it holds, and any code, is left alone."""
    try:
        if path.suffix == ".safetensors":
            record: Any = load_file(path)
        else:
            record = torch.load(path, map_location="cpu", weights_only=False, pickle_module=_TensorsAlone)
        state = record.get("state_dict", record)
        tensors = {k: v for k, v in state.items() if k.startswith((BACKBONE, PROJECTOR)) and isinstance(v, Tensor)}
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointInvalid(
            f"{path} cannot be read as a checkpoint ({str(error).splitlines()[0] if str(error) else error!r})",
            fix="give the .ckpt, .pth or .safetensors file that solo-learn wrote",
            value=str(path),
        ) from error
    if not any(name.startswith(BACKBONE) for name in tensors):
        raise CheckpointInvalid(
            f"{path} has no weights called {BACKBONE}*", fix="give a checkpoint of solo-learn's layout", value=str(path)
        )
    return tensors


class _Unpickler(pickle.Unpickler):
    """Builds tensors and containers; of every other class it makes an empty object, and imports nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
            return getattr(torch._utils, name)
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            return getattr(torch if module == "torch" else torch.storage, name)
        return _Ignored


class _Ignored(dict[Any, Any]):
    """What stands for an object that is not needed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __call__(self, *_: Any, **__: Any) -> "_Ignored":
        return self

    def __setstate__(self, _: Any) -> None: ...

    def append(self, _: Any) -> None: ...

    def extend(self, _: Any) -> None: ...


_TensorsAlone = SimpleNamespace(
    __name__="tensors alone", Unpickler=_Unpickler, load=lambda file, **_: _Unpickler(file).load()
)


def _model(state: Tensors, path: Path, settings: RunSettings) -> ModelSettings:
    """Return what the shapes say, and of the rest what was asked for."""
    if any("running_mean" in name for name in state if name.startswith(PROJECTOR)):
        raise CheckpointInvalid(
            f"{path} has batch norm in its projector, which NCL's has not",
            fix="give an encoder with a projector of linear layers and ReLU",
            value=str(path),
        )
    backbone = "resnet18"
    if f"{BACKBONE}layer1.2.conv1.weight" in state:
        backbone = "resnet50" if f"{BACKBONE}layer1.0.conv3.weight" in state else "resnet34"
    widths = [len(state[f"{PROJECTOR}{i}.weight"]) for i in _linear(state)]
    stem = state.get(f"{BACKBONE}conv1.weight")
    small = stem is not None and stem.shape[-1] == 3
    given, source = settings.model, settings.data.source.partition(":")[0]
    return given.model_copy(
        update={
            "backbone": backbone,
            "pretrained": None,
            "stem": ("padded" if small else "imagenet") if given.stem == "auto" else given.stem,
            "normalise": source if source in ("cifar10", "cifar100") else given.normalise,
            "hidden": tuple(widths[:-1]),
            "dimensions": widths[-1] if widths else 0,
            "activation": given.activation or ("identity" if settings.method in CONTROL_METHODS else "relu"),
            "batch_norm": False,
        }
    )


def _linear(state: Tensors) -> list[int]:
    """Return the places of the projector's linear layers."""
    matches = (re.fullmatch(rf"{re.escape(PROJECTOR)}(\d+)\.weight", name) for name in state)
    return sorted(int(match[1]) for match in matches if match)


def _renamed(state: Tensors) -> Tensors:
    """Return the tensors by our names; a layer without bias gets one of zeros."""
    tensors = {
        f"backbone.network.{name.removeprefix(BACKBONE)}": tensor
        for name, tensor in state.items()
        if name.startswith(BACKBONE) and not name.startswith(f"{BACKBONE}fc.")
    }
    places = _linear(state)
    for number, place in enumerate(places):
        ours = "output" if number == len(places) - 1 else f"hidden.{2 * number}"
        weight = state[f"{PROJECTOR}{place}.weight"]
        tensors[f"{ours}.weight"] = weight
        tensors[f"{ours}.bias"] = state.get(f"{PROJECTOR}{place}.bias", torch.zeros(len(weight)))
    return tensors
