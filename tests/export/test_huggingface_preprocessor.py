"""A preprocessor_config.json becomes the pixels that transformers makes of a photo, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

CONFIGS: dict[str, tuple[dict[str, Any], View, Scaling]] = {
    "CLIP": (
        {
            "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_normalize": True, "do_resize": True,
            "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 3,
            "size": {"shortest_edge": 224},
        },
        View(size=224, crop=1.0, interpolation="bicubic"),
        Scaling(mean=(0.48, 0.46, 0.41), std=(0.27, 0.26, 0.28)),
    ),
    "DINOv2": (
        {
            "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_rescale": True,
            "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3,
            "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256},
        },
        View(size=224, crop=0.875, interpolation="bicubic"),
        Scaling(),
    ),
    "ViT": (
        {"do_resize": True, "size": 224, "resample": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
         "feature_extractor_type": "ViTFeatureExtractor"},
        View(size=224, fit="squash", interpolation="bilinear"),
        Scaling(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
    ),
    "CLIP, before sizes had names": (
        {"size": 224, "crop_size": 224, "do_center_crop": True, "feature_extractor_type": "CLIPFeatureExtractor"},
        View(size=224, crop=1.0),
        Scaling(),
    ),
    "DeiT": (
        {"size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True},
        View(size=224, crop=0.875, fit="squash"),
        Scaling(),
    ),
    "DeiT, before sizes had names": (
        {"size": 256, "crop_size": 224, "do_center_crop": True, "feature_extractor_type": "DeiTFeatureExtractor"},
        View(size=224, crop=0.875, fit="squash"),
        Scaling(),
    ),
    "EfficientNet": (
        {"size": {"height": 224, "width": 224}, "resample": 0, "image_processor_type": "EfficientNetImageProcessor",
         "crop_size": {"height": 289, "width": 289}, "image_mean": [0.4] * 3, "image_std": [0.5] * 3},
        View(size=224, fit="squash", interpolation="nearest"),
        Scaling(mean=(0.4,) * 3, std=(0.25,) * 3),
    ),
    "EfficientNet without its top": (
        {"size": {"height": 224, "width": 224}, "resample": 0, "image_processor_type": "EfficientNetImageProcessor",
         "include_top": False, "rescale_offset": True, "image_mean": [0.4] * 3, "image_std": [0.5] * 3},
        View(size=224, fit="squash", interpolation="nearest"),
        Scaling(mean=(1.4,) * 3, std=(0.5,) * 3),
    ),
    "SigLIP": (
        {"size": {"height": 256, "width": 256}, "resample": 2, "do_normalize": False},
        View(size=256, fit="squash", interpolation="bilinear"),
        Scaling(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
    ),
    "ConvNeXt": (
        {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3},
        View(size=224, crop=0.875, interpolation="bicubic"),
        Scaling(),
    ),
    "ConvNeXt, large": (
        {"size": {"shortest_edge": 384}, "crop_pct": 0.875, "resample": 3},
        View(size=384, fit="squash", interpolation="bicubic"),
        Scaling(),
    ),
    "beside a text processor": (
        {"image_processor": {"size": {"height": 64, "width": 64}, "resample": 2}},
        View(size=64, fit="squash", interpolation="bilinear"),
        Scaling(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_preprocessor_config_becomes_view_and_scaling(name: str, tmp_path: Path) -> None:
    record, view, scaling = CONFIGS[name]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(record))
    found_view, found_scaling = read_preprocessor(tmp_path / "preprocessor_config.json")
    assert found_view == view
    assert found_scaling.mean == pytest.approx(scaling.mean)
    assert found_scaling.std == pytest.approx(scaling.std)
    assert found_scaling.factor == pytest.approx(1 / 255)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"size": {"shortest_edge": 224}}',
        '{"size": {"height": 224, "width": 112}}',
        "{}",
        '{"size": {"shortest_edge": 224, "longest_edge": 300}, "crop_size": 224}',
        '{"size": 256, "do_center_crop": true}',
        '{"size": 256, "do_pad": true}',
        '{"size": 256, "do_flip_channel_order": true}',
        '{"size": 224, "crop_size": 224, "image_processor_type": "MobileViTImageProcessor"}',
        '{"size": {"height": "large", "width": 1}}',
        '{"size": 224, "crop_pct": "most"}',
        '{"size": 9999}',
    ],
)
def test_a_preprocessor_config_that_is_not_understood_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises((DataInvalid, ConfigInvalid)) as caught:
        read_preprocessor(tmp_path / "p.json")
    assert caught.value.fix


def test_a_side_that_is_said_stands_in_for_a_view_that_is_not_understood(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"size": {"shortest_edge": 224}, "image_mean": [0.5, 0.5, 0.5]}')
    otherwise = View(size=64)
    view, scaling = read_preprocessor(path, otherwise)
    assert (view, scaling.mean) == (otherwise, (0.5,) * 3)
    path.write_text('{"size": {"shortest_edge": 224}, "do_flip_channel_order": true}')
    with pytest.raises(DataInvalid, match="asks for do_flip_channel_order"):  # no option can say that
        read_preprocessor(path, otherwise)


# Each family of docs/wrapping.md by its processor's defaults, and by what else its published files say.
PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ViT": ("ViTImageProcessor", {}),
    "Swin, one number": ("ViTImageProcessor", {"size": 224, "resample": 3}),
    "DeiT": ("DeiTImageProcessor", {}),
    "BEiT": ("BeitImageProcessor", {}),
    "BEiT, cropped": ("BeitImageProcessor", {"size": 256, "crop_size": 224, "do_center_crop": True}),
    "DINOv2": ("BitImageProcessor", {"size": {"shortest_edge": 256}}),
    "DINOv3": ("DINOv3ViTImageProcessor", {}),
    "CLIP": ("CLIPImageProcessor", {}),
    "CLIP, one number": ("CLIPImageProcessor", {"size": 224, "crop_size": 224}),
    "Chinese-CLIP": ("ChineseCLIPImageProcessor", {}),
    "SigLIP": ("SiglipImageProcessor", {}),
    "ConvNeXt": ("ConvNextImageProcessor", {"size": {"shortest_edge": 224}}),
    "ConvNeXt, large": ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}}),
    "EfficientNet": ("EfficientNetImageProcessor", {}),
    "EfficientNet, shifted": ("EfficientNetImageProcessor", {"rescale_offset": True, "include_top": False}),
    "LeViT": ("LevitImageProcessor", {}),
    "PoolFormer": ("PoolFormerImageProcessor", {}),
    "PVT": ("PvtImageProcessor", {}),
    "MobileNet": ("MobileNetV2ImageProcessor", {}),
    "FLAVA": ("FlavaImageProcessor", {}),
}
MEAN_DIFFERENCE = 4.0  # of 255: the library rounds the resized picture and its crop to whole pixels, a view does not


@pytest.mark.slow  # loads transformers
@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_are_those_of_the_librarys_own_processor(
    name: str, real_photos: list[Image.Image], tmp_path: Path
) -> None:
    import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision

    library = pytest.importorskip("transformers")
    kind, options = PROCESSORS[name]
    processor = getattr(library, kind)(**options)
    processor.save_pretrained(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))  # as it was written, not as it was read
    view, scaling = read_preprocessor(path)
    for photo in real_photos[:2]:
        wide = photo.convert("RGB").resize((400, 260))
        for picture in (wide, wide.transpose(Image.Transpose.ROTATE_90)):
            expected = processor(picture, return_tensors="pt")["pixel_values"][0].numpy()
            found = ((view.apply(picture) * scaling.factor - scaling.mean) / scaling.std).transpose(2, 0, 1)
            assert found.shape == expected.shape
            differences = np.abs(found - expected) * np.array(scaling.std)[:, None, None] / scaling.factor
            assert differences.mean() < MEAN_DIFFERENCE
