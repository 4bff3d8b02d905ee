"""CONTRIBUTING names the stations of a command in the order in which a real run reaches them."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
TRAIN = ["--backbone", "tiny-cnn", "--dimensions", "16", "--steps", "1", "--batch", "8", "--size", "16"]
Function = tuple[str, str]  # the end of its file's path, its name or its class's


def stations(beginning: str) -> list[Function]:
    """The first function or class that each station names, of the list that follows this line."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(beginning)[2]
    numbered = re.findall(r"^\d+\. .*(?:\n   .*)*", text.partition("\n## ")[0], re.MULTILINE)
    until = next((i for i, line in enumerate(numbered) if i and line.startswith("1. ")), len(numbered))
    named = [re.search(r"`([\w/.]+\.py):(\w+)`", line) for line in numbered[:until]]
    return [(found[1], found[2]) for found in named if found]


def reached(run: Callable[[], object]) -> dict[Function, int]:
    """The place of the first call of each function, by its file and each part of its name; a class is its methods."""
    order: dict[tuple[str, str], int] = {}

    def on_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a class or a module
            order.setdefault((frame.f_code.co_filename, frame.f_code.co_qualname), len(order))

    threading.setprofile(on_call)
    sys.setprofile(on_call)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    places: dict[Function, int] = {}
    for (file, name), place in order.items():
        for part in name.split("."):
            places.setdefault((file, part), place)
    return places


def check_order(beginning: str, places: dict[Function, int], *, at_least: int) -> None:
    times = {}
    for path, name in stations(beginning):
        firsts = [place for (file, part), place in places.items() if part == name and file.endswith(f"/{path}")]
        if firsts:
            times[f"{path}:{name}"] = min(firsts)
    assert len(times) >= at_least, times
    assert list(times) == sorted(times, key=times.__getitem__), times


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (8, 5, 5, 3), np.uint8)):
        Image.fromarray(pixels).resize((16, 16)).save(folder / f"{i}.png")
    return folder


def test_embed_goes_the_way_that_the_guide_says(pictures: Path, tmp_path: Path) -> None:
    from nonneg_client.commands.embed import embed

    line = [str(pictures), "--out", str(tmp_path / "v.npz"), "--bundle", "photo-fast", "--quiet"]
    places = reached(lambda: embed(line, standalone_mode=False))
    check_order("`nonneg embed photos/", places, at_least=6)


def test_export_goes_the_way_that_the_guide_says(pictures: Path, tmp_path: Path) -> None:
    from nonneg_export.commands.export import export
    from nonneg_training.train_command import train

    train(["--data", str(pictures), *TRAIN, "--out", str(tmp_path / "run")], standalone_mode=False)
    line = [str(tmp_path / "run"), "--calibrate", str(pictures), "--out", str(tmp_path / "b")]
    places = reached(lambda: export(line, standalone_mode=False))
    check_order("`nonneg export RUN", places, at_least=7)


def test_another_order_is_found() -> None:
    first, second = stations("`nonneg export RUN")[:2]
    with pytest.raises(AssertionError):
        check_order("`nonneg export RUN", {(f"/{first[0]}", first[1]): 2, (f"/{second[0]}", second[1]): 1}, at_least=2)
