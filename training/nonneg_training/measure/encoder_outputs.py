"""What an encoder makes of images: embeddings, features, second views; and a run's encoder as such a function."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nonneg_core.arrays import Floats
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data import Images
from nonneg_training.data.images import ImageSubset
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.setup.batch_order import derive
from nonneg_vectors.evaluation.structure_report import StructureReport, structure

PAIRS = 4096  # second views, for SEPIN, at most: fewer decide nothing of a single dimension
NEARER = 0.8  # the second view: the mirrored centre, this share of the first's side
BATCH = 256
Run = Callable[[Pixels], dict[str, Floats]]  # pixels -> rows by name, "z" among them
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Outputs:
    """An encoder's rows of the same images, in one order."""

    z: Floats  # (n, D), as the encoder gives them
    labels: NDArray[Any]  # (n,)
    features: Floats | None = None  # (n, width), the backbone's
    hidden: Floats | None = None  # (n, width), what the projector's last layer sees
    raw: Floats | None = None  # (n, D), before the activation
    second: Floats | None = None  # (at most PAIRS, D): another view of the first images
    untrained: tuple[Floats, Floats | None] | None = None  # an untrained head's z and second
    order: tuple[int, ...] = ()  # which image each row is of

    def structure(self, *, seed: int = 0) -> StructureReport:
        """Return the figures of structure beside their floors, which chance draws by `seed`."""
        return structure(self.z, self.labels, second=self.second, untrained=self.untrained, seed=seed)


def encode_images(run: Run, images: Images, view: View, *, seconds: bool = True, tick: Tick | None = None) -> Outputs:
    """Show all images to an encoder, in an order drawn by chance and always the same."""
    order = drawn(images)
    parts: list[dict[str, Floats]] = []
    for start in range(0, len(order), BATCH):
        parts.append(run(images.pixels(order[start : start + BATCH], view)))
        if tick:
            tick(min(start + BATCH, len(order)), len(order))
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    other = run(mirrored(images, order[:PAIRS], view)) if seconds and len(order) > 3 else {}
    return Outputs(
        z=rows["z"],
        labels=np.asarray(images.labels)[order],
        features=rows.get("features"),
        hidden=rows.get("hidden"),
        raw=rows.get("raw"),
        second=other.get("z"),
        untrained=(rows["untrained"], other.get("untrained")) if "untrained" in rows else None,
        order=tuple(order),
    )


def drawn(images: Images) -> list[int]:
    """Return the images in an order drawn by chance, always the same: the first ones are as good as any."""
    order: list[int] = np.random.default_rng(0).permutation(len(images)).tolist()
    return order


def mirrored(images: Images, rows: Sequence[int], view: View) -> Pixels:
    """Return the second view of some images: nearer, and mirrored."""
    nearer = view.model_copy(update={"crop": view.crop * NEARER})
    pixels = images.pixels(rows, nearer)
    return np.ascontiguousarray(pixels[:, :, ::-1])


class MirroredImages(ImageSubset):
    """Some images by their second views, so that a cache can hold these."""

    def digest(self) -> str:
        return hashlib.sha256(f"mirrored {NEARER} {super().digest()}".encode()).hexdigest()

    def pixels(self, indices: Sequence[int], view: View) -> Pixels:
        return mirrored(self.whole, [int(self.rows[i]) for i in indices], view)


# A run's encoder as a function from pixels to all its rows: features, raw, embedding, and an untrained head's.


def runner(encoder: EncoderModule, *, seed: int = 0) -> Run:
    """Return every row that can be measured of the encoder, in evaluation mode."""
    fresh = untrained_head(encoder, seed=seed)
    device = encoder.output.weight.device

    @torch.inference_mode()
    def run(pixels: Pixels) -> dict[str, Floats]:
        encoder.eval()
        return head_rows(encoder, fresh, encoder.features(torch.from_numpy(pixels).to(device)))

    return run


def head_rows(encoder: EncoderModule, fresh: nn.Module, features: Tensor) -> dict[str, Floats]:
    """Return what an encoder, and the untrained head `fresh`, make of features, by name."""
    inputs, raw = encoder.rooted(features), encoder.preactivation(features)
    tensors = {
        "features": features,
        "hidden": encoder.hidden_features(features),
        "raw": raw,
        "z": encoder.activate(raw),
        "untrained": fresh(inputs),
    }
    return {name: rows.float().cpu().numpy() for name, rows in tensors.items()}


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
