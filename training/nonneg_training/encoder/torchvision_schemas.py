"""Declares the two operators torchvision looks up when it is imported, where its compiled library does not load.

Its wheel for another torch build (CUDA beside a CPU torch) refuses to import otherwise. Nothing here uses the
operators themselves; where the real ones load, this module does nothing. Import it before torchvision.
"""

import importlib.util
from pathlib import Path

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _library_loads() -> bool:
    spec = importlib.util.find_spec("torchvision")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    try:
        for library in folder.glob("_C*.so"):
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
            return hasattr(torch.ops.torchvision, "nms")
    except (OSError, RuntimeError):
        return False
    return False


def _declare() -> None:
    for name in ("nms", "qnms"):
        try:
            torch.library.define(f"torchvision::{name}", _SCHEMA)
        except RuntimeError:  # declared by another package before
            continue


if not _library_loads():
    _declare()
