"""The batched views against torchvision's transforms v2: the same chances, not the same draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import nonneg_training.encoder.torchvision_schemas  # noqa: F401
from nonneg_training.data import Arrays, ImageFolder, Images
from nonneg_training.setup.run_settings import Views
from nonneg_training.views import Pipeline, pipeline_for

pytest.importorskip("torchvision.transforms.v2")
COUNT, SIZE = 1200, 24


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    with Image.open(Path(skimage.data.__file__).parent / "chelsea.png") as found:
        return found.convert("RGB").resize((48, 48), Image.Resampling.BOX)


@pytest.fixture(params=["in memory", "in files"])
def images(request: pytest.FixtureRequest, photo: Image.Image, tmp_path: Path) -> Images:
    if request.param == "in memory":
        return Arrays("one", np.asarray(photo)[None], np.zeros(1, np.int64), ("cat",))
    photo.save(tmp_path / "cat.png")
    return ImageFolder(tmp_path)


def drawn(images: Images, name: str, **changes: object) -> torch.Tensor:
    views = Views(size=SIZE, pipeline=name, **changes)  # type: ignore[arg-type]
    parts = [
        pipeline_for(images, views, SIZE).draw(images, [0] * 100, torch.Generator().manual_seed(seed))
        for seed in range(COUNT // 200)
    ]
    return torch.cat(parts)


def looks(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a view looks like, in numbers: (count,) each."""
    y = x / 255
    grey = y.mean(dim=1)
    edges = (grey[:, :, 1:] - grey[:, :, :-1]).abs().mean(dim=(1, 2))
    spread = y.max(dim=1).values - y.min(dim=1).values
    return {
        "brightness": y.mean(dim=(1, 2, 3)),
        "contrast": grey.flatten(1).std(dim=1),
        "colourfulness": spread.mean(dim=(1, 2)),
        "red over blue": (y[:, 0] - y[:, 2]).mean(dim=(1, 2)),
        "green over red": (y[:, 1] - y[:, 0]).mean(dim=(1, 2)),
        "sharpness": edges / grey.flatten(1).std(dim=1).clamp(min=1e-3),
        "left against right": (grey[:, :, : SIZE // 2] - grey[:, :, SIZE // 2 :]).mean(dim=(1, 2)),
    }


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest gap between the two cumulative distributions (Kolmogorov and Smirnov)."""
    values = torch.cat([a, b]).sort().values
    below = [(torch.searchsorted(part.sort().values, values, right=True) / len(part)) for part in (a, b)]
    return float((below[0] - below[1]).abs().max())


LIMIT = 1.95 * (2 / COUNT) ** 0.5  # equal distributions exceed it once in a thousand


def test_they_are_distributed_as_torchvisions(images: Images) -> None:
    ours, theirs = (looks(drawn(images, name)) for name in ("batched", "torchvision"))
    far = {name: d for name in ours if (d := distance(ours[name], theirs[name])) > LIMIT}
    assert not far


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"blur": 0.0}, "sharpness"),
        ({"grey": 0.5}, "colourfulness"),
        ({"jitter": 0.0}, "brightness"),
        ({"crop": (0.5, 1.0)}, "left against right"),
    ],
)
def test_the_comparison_would_see_another_setting(photo: Image.Image, changes: dict[str, object], seen: str) -> None:
    images = Arrays("one", np.asarray(photo)[None], np.zeros(1, np.int64), ("cat",))
    usual, other = (looks(drawn(images, "batched", **options)) for options in ({}, changes))
    assert distance(usual[seen], other[seen]) > LIMIT


def test_the_reference_depends_on_its_generator_only_and_leaves_torchs_own_alone(photo: Image.Image) -> None:
    images = Arrays("one", np.asarray(photo)[None], np.zeros(1, np.int64), ("cat",))

    def draw() -> torch.Tensor:
        pipeline: Pipeline = pipeline_for(images, Views(pipeline="torchvision"), SIZE)
        return pipeline.draw(images, [0, 0], torch.Generator().manual_seed(5))

    torch.manual_seed(1)
    first, after = draw(), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    torch.manual_seed(2)
    assert torch.equal(draw(), first)
    assert first.shape == (4, 3, SIZE, SIZE)
    assert not torch.equal(first[0], first[1])
