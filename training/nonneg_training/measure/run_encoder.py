"""A run's encoder as a function from pixels to all its rows: features, raw, embedding, and an untrained head's."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from nonneg_core.pixels.view import Pixels
from nonneg_training.cache import features
from nonneg_training.data import Images
from nonneg_training.encoder import EncoderModule
from nonneg_training.feature_blocks import FeatureRequest
from nonneg_training.measure.outputs import PAIRS, Floats, Outputs, Run, drawn, mirrored
from nonneg_training.seeds import derive
from nonneg_training.settings import Views


def runner(encoder: EncoderModule, *, seed: int = 0) -> Run:
    """Return every row that can be measured of the encoder, in evaluation mode."""
    fresh = untrained_head(encoder, seed=seed)
    device = encoder.output.weight.device

    @torch.inference_mode()
    def run(pixels: Pixels) -> dict[str, Floats]:
        encoder.eval()
        return _rows(encoder, fresh, encoder.features(torch.from_numpy(pixels).to(device)))

    return run


@torch.inference_mode()
def see_cached(encoder: EncoderModule, images: Images, views: Views, *, seed: int = 0, seconds: bool = True) -> Outputs:
    """Do as `see` does, with the backbone's features from the cache: for heads, of which many share them."""
    order = drawn(images)
    found = features(FeatureRequest(encoder, images, views, random=0, seed=0))[0, order]
    rows = _rows(encoder.eval(), untrained_head(encoder, seed=seed), torch.from_numpy(found))
    other = runner(encoder, seed=seed)(mirrored(images, order[:PAIRS], encoder.view)) if seconds else {}
    return Outputs(
        z=rows["z"],
        labels=images.labels[order],
        features=rows["features"],
        raw=rows["raw"],
        second=other.get("z"),
        untrained=(rows["untrained"], other.get("untrained")),
        order=tuple(order),
    )


def _rows(encoder: EncoderModule, fresh: nn.Module, features: Tensor) -> dict[str, Floats]:
    raw = encoder.preactivation(features)
    found = {"features": features, "raw": raw, "z": encoder.activate(raw), "untrained": fresh(features)}
    return {name: rows.float().cpu().numpy() for name, rows in found.items()}


def untrained_head(encoder: EncoderModule, *, seed: int = 0) -> nn.Module:
    """Return the encoder's untrained projector: the same layers, drawn again; without the activation."""
    head = nn.Sequential(copy.deepcopy(encoder.hidden), copy.deepcopy(encoder.output))
    state = torch.get_rng_state()
    torch.manual_seed(derive(seed, "untrained"))
    for layer in head.modules():
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    torch.set_rng_state(state)
    return head.eval()
