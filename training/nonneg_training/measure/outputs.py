"""What an encoder makes of images: embeddings, the backbone's features, and the embeddings of second views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.certificate import StructureReport, structure
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data import Images

PAIRS = 512  # second views, for SEPIN
NEARER = 0.8  # the second view: the mirrored centre, this share of the first's side
BATCH = 256
Floats = NDArray[np.float32]
Run = Callable[[Pixels], dict[str, Floats]]  # pixels -> rows by name, "z" among them
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Outputs:
    """An encoder's rows of the same images, in one order."""

    z: Floats  # (n, D), as the encoder gives them
    labels: NDArray[Any]  # (n,)
    features: Floats | None = None  # (n, width), the backbone's
    raw: Floats | None = None  # (n, D), before the activation
    second: Floats | None = None  # (at most PAIRS, D): another view of the first images
    untrained: tuple[Floats, Floats | None] | None = None  # an untrained head's z and second
    order: tuple[int, ...] = ()  # which image each row is of

    def structure(self, *, seed: int = 0) -> StructureReport:
        """Return the figures of structure beside their floors, which chance draws by `seed`."""
        return structure(self.z, self.labels, second=self.second, untrained=self.untrained, seed=seed)


def see(run: Run, images: Images, view: View, *, seconds: bool = True, tick: Tick | None = None) -> Outputs:
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
