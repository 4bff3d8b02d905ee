"""Real architectures with small random weights, from a hub on this machine through torch to ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loopback_hub import Hub

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.shortening import unit
from nonneg_export.share.hub_repository import address
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.torch_tower import choose
from nonneg_export.wrap.tower import Tower, TowerOverrides, pooling
from nonneg_runtime.inference.onnx_session import Session

library = pytest.importorskip("transformers")
NAME = "someone/family"
SIDE = 32
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
SEEN = {
    "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True, "image_mean": MEAN, "image_std": STD,
    "resample": 3, "size": {"shortest_edge": SIDE},
}  # fmt: skip
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
PATCHES = {"image_size": SIDE, "patch_size": 8}
WORDS = {**SMALL, "vocab_size": 64, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2}
Case = tuple[str, dict[str, Any], Callable[[Any, torch.Tensor], torch.Tensor]]


def class_token(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=x).last_hidden_state[:, 0]


def pooler(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=x).pooler_output.flatten(1)


def projected(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model.visual_projection(model.vision_model(pixel_values=x).pooler_output)


def attended(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model.vision_model(pixel_values=x).pooler_output


def mean_of_tokens(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=x).last_hidden_state.mean(1)


def unmasked_mean(model: Any, x: torch.Tensor) -> torch.Tensor:
    """By the library's own way to fix the mask: no random numbers, nothing left out."""
    model.config.mask_ratio = 0.0
    return model(pixel_values=x, noise=torch.zeros(len(x), (SIDE // 8) ** 2)).last_hidden_state.mean(1)


FAMILIES: dict[str, Case] = {
    "ViT": ("ViT", {**SMALL, **PATCHES}, class_token),
    "DINOv2 with registers": (
        "Dinov2WithRegisters",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 48, "patch_size": 8},
        class_token,
    ),
    "CLIP": (
        "CLIP",
        {"text_config": WORDS, "vision_config": {**SMALL, **PATCHES}, "projection_dim": 24},
        projected,
    ),
    "SigLIP": ("Siglip", {"text_config": WORDS, "vision_config": {**SMALL, **PATCHES}}, attended),
    "ConvNeXt": ("ConvNext", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, pooler),
    "ResNet": ("ResNet", {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, pooler),
    "EfficientNet": (
        "EfficientNet",
        {"image_size": SIDE, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
        pooler,
    ),
    "MAE": ("ViTMAE", {**SMALL, **PATCHES}, unmasked_mean),
}


TAKEN = {
    "ViT": "the class token of last_hidden_state",
    "DINOv2 with registers": "the class token of last_hidden_state",
    "CLIP": "the projected pooler_output",
    "SigLIP": "pooler_output",
    "ConvNeXt": "pooler_output",
    "ResNet": "pooler_output",
    "EfficientNet": "pooler_output",
    "MAE": "the mean of the tokens of last_hidden_state",
}
# Families whose pooling alone is compared, in torch: that takes no export.
POOLED: dict[str, Case] = {
    "DeiT": ("DeiT", {**SMALL, **PATCHES}, class_token),
    "BEiT": ("Beit", {**SMALL, **PATCHES}, pooler),
    "BEiT, class token": ("Beit", {**SMALL, **PATCHES, "use_mean_pooling": False}, class_token),
    "data2vec": ("Data2VecVision", {**SMALL, **PATCHES}, mean_of_tokens),
    "DINOv3": ("DINOv3ViT", {**SMALL, **PATCHES}, class_token),
    "I-JEPA": ("IJepa", {**SMALL, **PATCHES}, mean_of_tokens),
    "Swin": ("Swin", {"image_size": SIDE, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
                      "window_size": 4}, pooler),
    "Hiera": ("Hiera", {"image_size": [SIDE, SIDE], "embed_dim": 8, "depths": [1, 1, 1, 1],
                        "num_heads": [1, 1, 1, 1]}, mean_of_tokens),
    "PVT": ("Pvt", {"image_size": SIDE, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32],
                    "num_attention_heads": [1, 1, 1, 1]}, class_token),
}  # fmt: skip


def made(name: str) -> Any:
    """The architecture with small random weights, also where the library starts from zeros."""
    kind, options, _ = {**FAMILIES, **POOLED}[name]
    torch.manual_seed(0)
    model = getattr(library, f"{kind}Model")(getattr(library, f"{kind}Config")(**options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim and not parameter.any():
                parameter.normal_(std=0.02)
    return model


def publish(model: Any, hub: Hub, place: Path) -> None:
    model.save_pretrained(place / "saved")
    files = {path.name: path.read_bytes() for path in (place / "saved").iterdir()}
    hub.files[NAME] = {**files, "preprocessor_config.json": json.dumps(SEEN).encode()}


def opened(**wishes: Any) -> Tower:
    return open_tower(address(f"hf:{NAME}"), TowerOverrides(**wishes))


def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


def floats(pixels: np.ndarray) -> torch.Tensor:
    scaled = (pixels / 255 - np.array(MEAN)) / np.array(STD)
    return torch.from_numpy(scaled.transpose(0, 3, 1, 2).astype(np.float32))


# One is in the gate: an export through torch takes seconds.
@pytest.mark.parametrize(
    "name", [name if name == "CLIP" else pytest.param(name, marks=pytest.mark.nightly) for name in FAMILIES]
)
def test_a_tower_answers_what_the_library_answers(name: str, here: Hub, tmp_path: Path) -> None:
    model = made(name)
    publish(model, here, tmp_path)
    tower = opened()
    pixels = pictures()
    with torch.inference_mode():
        expected = FAMILIES[name][2](model, floats(pixels)).numpy()
    found = Session(tower.model.SerializeToString()).run(pixels)
    assert found.shape == expected.shape
    assert any(note.endswith(f"through torch, taken: {TAKEN[name]}") for note in tower.notes)
    assert (unit(found) * unit(expected)).sum(axis=1).min() >= 0.9999
    assert tower.reference is not None
    np.testing.assert_allclose(tower.reference(pixels), expected, atol=1e-4)
    np.testing.assert_allclose(found[:1], Session(tower.model.SerializeToString()).run(pixels[:1]), atol=1e-4)


@pytest.mark.parametrize("name", POOLED)
def test_an_architecture_is_pooled_as_it_was_trained(name: str) -> None:
    model, x = made(name), floats(pictures())
    answer = choose(model, pooling(model.config.to_dict()), TowerOverrides(), SIDE)
    with torch.inference_mode():
        torch.testing.assert_close(answer(model, x), POOLED[name][2](model, x))


def test_an_output_that_a_model_does_not_have_is_refused_with_those_it_has() -> None:
    model = made("ViT")
    usual = pooling(model.config.to_dict())
    with pytest.raises(ConfigInvalid, match=r"no output 'x': choose one of last_hidden_state, pooler_output"):
        choose(model, usual, TowerOverrides(output="x"), SIDE)
    with pytest.raises(ConfigInvalid, match="one row an image already: leave --pool out"):
        choose(model, usual, TowerOverrides(output="pooler_output", pool="mean"), SIDE)
    with pytest.raises(ConfigInvalid, match="a map without a class token: pool it with --pool mean"):
        choose(made("ConvNeXt"), pooling({}), TowerOverrides(pool="cls"), SIDE)


def test_weights_that_are_lacking_are_refused_where_the_answer_is_made_with_them(here: Hub, tmp_path: Path) -> None:
    """A pooler's weights may be lacking where it is not what is taken."""
    from safetensors.torch import load, save

    publish(made("BEiT"), here, tmp_path)
    tensors = load(here.files[NAME]["model.safetensors"])
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    here.files[NAME]["model.safetensors"] = save(kept)
    with pytest.raises(DataInvalid, match=r"lack pooler\.layernorm.*--pool mean"):
        opened()


def test_shards_count_together_towards_the_limit_before_one_is_fetched(here: Hub, tmp_path: Path) -> None:
    made("ViT").save_pretrained(tmp_path / "saved", max_shard_size="20KB")
    files = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    here.files[NAME] = {**files, "preprocessor_config.json": json.dumps(SEEN).encode()}
    shards = {name: len(data) for name, data in files.items() if name.endswith(".safetensors")}
    assert len(shards) > 1
    with pytest.raises(DataInvalid, match=f"{len(shards)} files of .* together, more than"):
        opened(limit=sum(shards.values()) - 1)
    assert not {name for name, _ in here.asked} & shards.keys()


def test_a_size_that_the_positions_do_not_fit_is_refused(here: Hub, tmp_path: Path) -> None:
    publish(made("ViT"), here, tmp_path)
    with pytest.raises(ConfigInvalid, match="does not take 48 x 48 pixels"):
        opened(view_fields={"size": 48})


def test_weights_that_are_broken_or_lack_a_part_are_refused(here: Hub, tmp_path: Path) -> None:
    from safetensors.torch import load, save

    publish(made("ViT"), here, tmp_path)
    whole = here.files[NAME]["model.safetensors"]
    tensors = {name: t for name, t in load(whole).items() if "layers.1." not in name and "layer.1." not in name}
    here.files[NAME]["model.safetensors"] = save(tensors)
    with pytest.raises(DataInvalid, match=r"lacks .* of the model's weights"):
        opened()
    here.files[NAME]["model.safetensors"] = whole[:-100]
    with pytest.raises(DataInvalid, match="cannot be loaded"):
        opened()


def test_code_of_a_repository_is_not_run(here: Hub, tmp_path: Path) -> None:
    publish(made("ViT"), here, tmp_path)
    config = json.loads(here.files[NAME]["config.json"])
    config |= {"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}}
    mark = tmp_path / "ran"
    here.files[NAME] |= {
        "config.json": json.dumps(config).encode(),
        "mine.py": f"open({str(mark)!r}, 'w')".encode(),
    }
    with pytest.raises(ConfigInvalid, match="brings code of its own, which is not run"):
        opened()
    assert not mark.exists()
