"""The random views of SimCLR, drawn for a whole batch at once, and the one view images are evaluated by."""

import torch

from nonneg_training.data import Arrays, Images
from nonneg_training.setup.run_settings import Views
from nonneg_training.views.pipeline import (
    Cutter,
    MemoryViews,
    PictureViews,
    Pipeline,
    TorchvisionViews,
    evaluation_view,
)

__all__ = ["Pipeline", "cutter_for", "evaluation_view", "pipeline_for"]


def pipeline_for(images: Images, views: Views, size: int, device: torch.device | None = None) -> Pipeline:
    """Return the pipeline that `views.pipeline` names, for such images."""
    if isinstance(images, Arrays) and views.pipeline == "batched":
        return MemoryViews(views, size, device)
    return cutter_for(views, size, device)


def cutter_for(views: Views, size: int, device: torch.device | None = None) -> Cutter:
    """Return the pipeline that `views.pipeline` names, for decoded pictures."""
    if views.pipeline == "torchvision":
        return TorchvisionViews(views, size, device)
    return PictureViews(views, size, device)


def __dir__() -> list[str]:
    return sorted(__all__)
