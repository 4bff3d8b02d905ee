"""Models that packages know by name, with small random weights: from a hub on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from loopback_hub import Hub
from safetensors.torch import save

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_export.commands.wrap import wrap
from nonneg_export.share.hub_repository import address
from nonneg_export.wrap.from_open_clip import of_open_clip
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.published_text import cleaned
from nonneg_export.wrap.tower import TowerOverrides
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.text_tower import TOKENS, Tokenizer, text_tower

library = pytest.importorskip("open_clip")
timm = pytest.importorskip("timm")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow  # torch writes graphs
NAME, SIDE, WIDTH, LENGTH = "someone/tiny", 32, 24, 16
SEEN = {"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28), "interpolation": "bicubic", "resize_mode": "shortest"}
TEXTS = ["a photo of a dog", "The CAT's  whiskers, 3 of them", "a_red-bicycle", "zwölf Hühner", "x" * 40]
SMALL = {"layers": 1, "width": 64, "head_width": 32, "patch_size": 16, "image_size": SIDE}


def known(
    tmp_path: Path, patch: pytest.MonkeyPatch, hub: Hub, text: dict[str, Any], *, pretrained_text: bool = True
) -> Any:
    """A small architecture in open_clip's own list, its weights on the hub."""
    config = {"embed_dim": WIDTH, "vision_cfg": SMALL, "text_cfg": {"width": 32, "heads": 2, "layers": 1, **text}}
    (tmp_path / "tiny-clip.json").write_text(json.dumps(config))
    library.add_model_config(tmp_path / "tiny-clip.json")
    patch.setitem(library.pretrained._PRETRAINED, "tiny-clip", {"random": {"hf_hub": f"{NAME}/", **SEEN}})
    torch.manual_seed(0)
    model = library.create_model("tiny-clip", pretrained=None, pretrained_text=pretrained_text).eval()
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    hub.files[NAME] = {"open_clip_model.safetensors": save(weights), "README.md": b"---\nlicense: mit\n---\n"}
    return model


def wrapped(model: str, photos: Path, out: Path, *words: str) -> Result:
    return CliRunner().invoke(wrap, [model, "--calibrate", str(photos), "--out", str(out), *words])


def test_both_towers_of_open_clip_come_along_with_its_own_tokenizer(
    here: Hub, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = known(tmp_path, monkeypatch, here, {"context_length": LENGTH, "vocab_size": 49_408})
    captions = tmp_path / "captions.csv"
    photos = sorted(labelled.rglob("*.jpg"))
    others = photos[:8]
    lines = [f"{path},a photo of {path.parent.name} {i}" for i, path in enumerate(others)]
    captions.write_text("image,caption\n" + "\n".join(lines) + "\n", encoding="utf-8")
    calibration = tmp_path / "photos"
    calibration.mkdir()
    for i, path in enumerate(photos[8:]):
        (calibration / f"{i}.jpg").symlink_to(path)
    done = wrapped("open_clip:tiny-clip/random", calibration, tmp_path / "b", "--captions", str(captions))
    assert done.exit_code == 0, done.output
    assert "with its text tower" in done.output
    assert f"| {WIDTH}, features |" in done.output
    bundle = open_bundle(tmp_path / "b")
    record, tower = bundle.manifest.text, text_tower(bundle)
    assert record is not None
    assert tower is not None
    assert (record.length, record.pad) == (LENGTH, 0)
    assert {check.name for check in record.checks} == {"torch", "batch"}
    theirs = library.tokenizer.SimpleTokenizer(context_length=LENGTH)
    np.testing.assert_array_equal(tower.tokenizer.rows(TEXTS, truncate=True), theirs(TEXTS).numpy())
    rows, expected = recall_by_hand(model, others, [line.partition(",")[2] for line in lines], bundle), record.raw
    assert expected is not None
    assert (expected.dimensions, expected.text_to_image["1"]) == (WIDTH, pytest.approx(rows, abs=1e-3))


def recall_by_hand(model: Any, photos: list[Path], captions: list[str], bundle: Any) -> float:
    """How many captions find their photo first by the model's own features."""
    from nonneg_export.calibrate.photo_folder import load_pixels

    pixels = np.stack([load_pixels(path, bundle.manifest.view)[0] for path in photos])
    scaled = ((pixels / 255 - np.array(SEEN["mean"])) / np.array(SEEN["std"])).transpose(0, 3, 1, 2).astype(np.float32)
    with torch.inference_mode():
        images = unit(model.encode_image(torch.from_numpy(scaled)).numpy())
        tokens = library.tokenizer.SimpleTokenizer(context_length=LENGTH)(captions)
        texts = unit(model.encode_text(tokens).numpy())
    return float(((texts @ images.T).argmax(axis=1) == np.arange(len(photos))).mean())


@pytest.mark.nightly
def test_a_tokenizer_of_the_hub_reads_texts_as_open_clip_cleans_them(
    here: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {
        "context_length": LENGTH, "vocab_size": 64, "hf_tokenizer_name": "else/where", "no_causal_mask": True,
        "pool_type": "last", "tokenizer_kwargs": {"clean": "canonicalize"},
    }  # fmt: skip
    model = known(tmp_path, monkeypatch, here, text)
    wishes, where = TowerOverrides(), address("open_clip:tiny-clip/random")
    without = open_tower(where, wishes)
    assert without.text is None
    assert any("has no tokenizer.json" in note for note in without.notes)
    here.files[NAME] |= {"tokenizer.json": words(), "tokenizer_config.json": json.dumps(SAID).encode()}
    found = open_tower(where, wishes).text
    assert found is not None
    reader = Tokenizer(found.tokenizer, LENGTH, found.pad)
    rows = reader.rows(["A dog!", "a_cat", "a  dog"])
    np.testing.assert_array_equal(rows[0], rows[2])
    assert rows[1].tolist() == [2, 4, 0] + [1] * (LENGTH - 3)
    with torch.inference_mode():
        expected = model.encode_text(torch.from_numpy(rows)).numpy()
    session = Session(found.model.SerializeToString(), takes=TOKENS)
    assert (unit(session.run(rows)) * unit(expected)).sum(axis=1).min() > 0.9999
    assert open_tower(where, TowerOverrides(text=False)).text is None


SAID = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}


def words() -> bytes:
    """A tokenizer of few words with an end, as a repository holds it."""
    vocabulary = {"</s>": 0, "<pad>": 1, "a": 2, "dog": 3, "cat": 4, "photo": 5, "<unk>": 6}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return str(made.to_str()).encode()


@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_texts_are_cleaned_as_open_clip_cleans_them(clean: str) -> None:
    theirs = library.tokenizer.SimpleTokenizer(context_length=LENGTH, clean=clean)
    ours = Tokenizer(of_open_clip(theirs, clean), LENGTH, 0)
    texts = TEXTS if clean != "whitespace" else [text.lower() for text in TEXTS]
    np.testing.assert_array_equal(ours.rows(texts, truncate=True), theirs(texts).numpy())
    assert Tokenizer(cleaned(words().decode(), clean), LENGTH, 1).ids(" a\n dog ") == [2, 3, 0]


@pytest.mark.nightly
def test_a_text_tower_of_transformers_is_made_from_its_configuration_alone(
    here: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own weights, which open_clip would fetch to replace them, are not asked for."""
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    config = {"model_type": "roberta", **small, "vocab_size": 64, "max_position_embeddings": LENGTH + 2}
    here.files["other/roberta"] = {"config.json": json.dumps(config).encode(), "pytorch_model.bin": b"\x80\x02}q\x00."}
    text = {
        "hf_model_name": "other/roberta", "hf_tokenizer_name": "other/roberta", "hf_pooler_type": "mean_pooler",
        "context_length": LENGTH, "hf_model_pretrained": False,
    }  # fmt: skip
    model = known(tmp_path, monkeypatch, here, text, pretrained_text=False)
    here.of.clear()
    tower = open_tower(address("open_clip:tiny-clip/random"), TowerOverrides())
    assert {name for name in here.of if name.startswith("other/")} <= {"other/roberta/config.json"}
    assert tower.fetched is not None
    assert f"hf:other/roberta@{here.commit('other/roberta')}/config.json" in tower.fetched
    pixels = np.random.default_rng(0).integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)
    scaled = ((pixels / 255 - np.array(SEEN["mean"])) / np.array(SEEN["std"])).transpose(0, 3, 1, 2).astype(np.float32)
    assert tower.reference is not None
    with torch.inference_mode():
        np.testing.assert_allclose(tower.reference(pixels), model.encode_image(torch.from_numpy(scaled)), atol=1e-4)


def test_a_model_of_timm_is_taken_from_its_repository(here: Hub, labelled: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    seen = {
        "input_size": [3, 160, 160],
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "crop_pct": 0.95,
        "interpolation": "bicubic",
    }
    config = {"architecture": "test_vit", "pretrained_cfg": seen}
    here.files["timm/test_vit.r160_in1k"] = {
        "model.safetensors": save({name: t.contiguous() for name, t in model.state_dict().items()}),
        "config.json": json.dumps(config).encode(),
    }
    tower = open_tower(address("timm:test_vit.r160_in1k"), TowerOverrides())
    assert (tower.view.size, tower.view.crop) == (160, 0.95)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 160, 160, 3), dtype=np.uint8)
    with torch.inference_mode():
        expected = model(
            torch.from_numpy(((pixels / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2).astype(np.float32))
        ).numpy()
    found = Session(tower.model.SerializeToString()).run(pixels)
    assert (unit(found) * unit(expected)).sum(axis=1).min() > 0.9999
    for wishes in ({"pool": "mean"}, {"output": "x"}, {"text": False}):
        with pytest.raises(ConfigInvalid, match=r"not for a model of timm through torch .*: leave it out"):
            open_tower(address("timm:test_vit.r160_in1k"), TowerOverrides(**wishes))
    with pytest.raises(ConfigInvalid, match="timm has no model 'nothing'"):
        open_tower(address("timm:nothing"), TowerOverrides())
