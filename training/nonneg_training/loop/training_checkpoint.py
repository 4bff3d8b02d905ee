"""checkpoint.safetensors, written whole or not at all and read back: the weights and moments after a step."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg_core.errors import CheckpointInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.text_tower import TextTowerModule, tower_beside
from nonneg_training.loop.build_encoder import build_encoder
from nonneg_training.loop.optimiser import MixedPrecision, moments, restore_moments
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import RunSettings, read_settings

CHECKPOINT_FILE = "checkpoint.safetensors"
FORMAT = "nonneg-checkpoint-2"
ENCODER, TEXT, OPTIMISER, SCALE = "encoder.", "text.", "optimiser.", "scale."


@dataclass(frozen=True)
class Checkpoint:
    """What a run was at the end of `step` steps."""

    step: int
    tensors: dict[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors below a prefix, without it."""
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def load_encoder(run: str | os.PathLike[str]) -> EncoderModule:
    """Return the trained encoder of a run folder, in evaluation mode."""
    run = Path(run)
    settings = run_settings(run)
    encoder = build_encoder(settings, pretrained=False)
    restore(encoder, read_checkpoint(run).part(ENCODER), run / CHECKPOINT_FILE)
    return encoder.eval()


def load_text(run: str | os.PathLike[str]) -> TextTowerModule:
    """Return the text tower of a two-tower run, in evaluation mode."""
    run = Path(run)
    settings = run_settings(run)
    tower = tower_beside(build_encoder(settings, pretrained=False), settings.text)
    restore(tower, read_checkpoint(run).part(TEXT), run / CHECKPOINT_FILE)
    return tower.eval()


def run_settings(run: Path) -> RunSettings:
    """Return what a run folder's training was told."""
    if not (run / CONFIG).is_file():
        there = f"has no {CONFIG}" if run.is_dir() else "does not exist or is not a folder"
        raise CheckpointInvalid(
            f"{run} is not a training run: it {there}",
            fix="point to a folder that `nonneg train` wrote",
            value=str(run),
        )
    return read_settings(run / CONFIG, {})


def write_checkpoint(run: Path, step: int, learner: nn.Module, optimiser: Optimizer, precision: MixedPrecision) -> Path:
    """Save everything that the next step needs; the previous checkpoint stays until this one is whole."""
    tensors = dict(learner.state_dict())
    tensors |= {OPTIMISER + name: tensor for name, tensor in moments(optimiser).items()}
    tensors |= {SCALE + name: value for name, value in precision.state().items()}
    # the same memory order every time, and nothing shared
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    # one entry: several come in an order that is drawn by chance
    about = {"nonneg": json.dumps({"format": FORMAT, "step": step, **code_version()})}
    with atomic_write(run / CHECKPOINT_FILE) as path:
        _save(tensors, path, about)
    return run / CHECKPOINT_FILE


@cache
def code_version() -> dict[str, str]:
    """Return nonneg's version and, of a clone, its commit."""
    clone, described = Path(__file__).parents[3], ""
    git = ["git", "-C", str(clone), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    if (clone / ".git").exists():
        with suppress(OSError, subprocess.TimeoutExpired):
            described = subprocess.run(git, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    return {"version": version("nonneg")} | ({"commit": described} if described else {})


def _save(tensors: dict[str, Tensor], path: Path, about: dict[str, str]) -> None:
    try:
        save_file(tensors, path, metadata=about)
    except SafetensorError as error:  # keeps of the operating system's error only the text
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code)) from error


def read_checkpoint(run: Path) -> Checkpoint:
    """Return the verified content of a run's checkpoint file."""
    path = run / CHECKPOINT_FILE
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("nonneg", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except FileNotFoundError:
        raise CheckpointInvalid(
            f"{run} has no {CHECKPOINT_FILE} yet", fix="let `nonneg train` reach its first checkpoint", value=str(run)
        ) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointInvalid(
            f"{path} is truncated or damaged ({error})", fix="copy it again, or train again", value=str(path)
        ) from error
    if about.get("format") != FORMAT:
        raise CheckpointInvalid(
            f"{path} has the format {about.get('format')!r}; this nonneg reads {FORMAT}",
            fix="train again",
            value=str(path),
        )
    return Checkpoint(int(about["step"]), tensors)


def load_backbone(encoder: EncoderModule, run: Path) -> None:
    """Start from the backbone that another run trained."""
    restore(encoder.backbone, read_checkpoint(run).part(f"{ENCODER}backbone."), run / CHECKPOINT_FILE)


def restore(module: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put `tensors` into `module`, or say which ones do not fit."""
    state = module.state_dict()
    for name in sorted(state.keys() | tensors.keys()):
        if name not in tensors or name not in state:
            what = f"lacks {name}" if name not in tensors else f"has {name}, which this model has not"
        elif state[name].shape != tensors[name].shape:
            what = f"has {name} of shape {tuple(tensors[name].shape)}, not {tuple(state[name].shape)}"
        else:
            continue
        raise CheckpointInvalid(
            f"{path} is a checkpoint of another architecture: it {what}",
            fix=f"use the {CONFIG} that was saved with it",
            field=name,
            value=str(path),
        )
    module.load_state_dict(tensors)


def restore_run(
    checkpoint: Checkpoint, run: Path, learner: nn.Module, optimiser: Optimizer, precision: MixedPrecision
) -> int:
    """Put everything back as it was after the checkpoint's step, and answer that step."""
    weights = {n: t for n, t in checkpoint.tensors.items() if not n.startswith((OPTIMISER, SCALE))}
    restore(learner, weights, run / CHECKPOINT_FILE)
    restore_moments(optimiser, checkpoint.part(OPTIMISER))
    precision.restore(checkpoint.part(SCALE))
    return checkpoint.step
