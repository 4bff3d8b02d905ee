"""A run's encoder as a function from pixels to all its rows: features, raw, embedding, and an untrained head's."""

from __future__ import annotations

import copy

import torch
from torch import nn

from nonneg_core.pixels.view import Pixels
from nonneg_training.encoder import Encoder
from nonneg_training.measure.seen import Floats, Run
from nonneg_training.seeds import derive


def runner(encoder: Encoder, *, seed: int = 0) -> Run:
    """Every row that can be measured of the encoder, in evaluation mode."""
    fresh = untrained_head(encoder, seed=seed)
    device = encoder.output.weight.device

    @torch.inference_mode()
    def run(pixels: Pixels) -> dict[str, Floats]:
        encoder.eval()
        features = encoder.features(torch.from_numpy(pixels).to(device))
        raw = encoder.preactivation(features)
        found = {"features": features, "raw": raw, "z": encoder.activate(raw), "untrained": fresh(features)}
        return {name: rows.float().cpu().numpy() for name, rows in found.items()}

    return run


def untrained_head(encoder: Encoder, *, seed: int = 0) -> nn.Module:
    """The encoder's projector as it is before any training: the same layers, drawn again; without the activation."""
    head = nn.Sequential(copy.deepcopy(encoder.hidden), copy.deepcopy(encoder.output))
    state = torch.get_rng_state()
    torch.manual_seed(derive(seed, "untrained"))
    for layer in head.modules():
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    torch.set_rng_state(state)
    return head.eval()
