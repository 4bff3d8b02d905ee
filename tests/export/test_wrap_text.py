"""A model with two towers becomes a bundle that embeds images and texts in one space."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from loopback_hub import Hub, running
from onnx import numpy_helper

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_client import Encoder
from nonneg_core.errors import BundleInvalid, CheckFailed, DataInvalid, DigestMismatch, ParameterInvalid
from nonneg_core.shortening import unit
from nonneg_export.commands.wrap import wrap
from nonneg_export.share.hub_repository import hub_address, open_repository
from nonneg_export.wrap.from_transformers import text_encoder
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.bundle.head_file import read_head
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.text_tower import GOLDEN, TOKENS, Tokenizer, text_tower

constants = pytest.importorskip("huggingface_hub.constants")
library = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow  # torch writes two graphs
NAME, SIDE, LENGTH, WIDTH = "someone/clip", 32, 12, 24
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-'."
TOKENS_SAID = {"pad_token": "<end>", "tokenizer_class": "PreTrainedTokenizerFast"}
SEEN = {
    "crop_size": SIDE, "do_center_crop": True, "size": {"shortest_edge": SIDE}, "resample": 3,
    "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28],
}  # fmt: skip


def tokenizer(letters: str = ALPHABET) -> bytes:
    """Words, of which some are known as a whole, between a start and an end."""
    words = ["<end>", "<start>", "<unk>", *letters, "a", "photo", "of", "dog", "cat", "the"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(dict.fromkeys(words))}, unk_token="<unk>")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", 0)]
    )
    return str(made.to_str()).encode()


def clip() -> Any:
    torch.manual_seed(0)
    text = {**SMALL, "vocab_size": 64, "max_position_embeddings": LENGTH, "bos_token_id": 1, "eos_token_id": 0}
    vision = {**SMALL, "image_size": SIDE, "patch_size": 8}
    config = library.CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH)
    return library.CLIPModel(config).eval()


def published(model: Any, place: Path) -> dict[str, bytes]:
    model.save_pretrained(place)
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    said = {"preprocessor_config.json": SEEN, "tokenizer_config.json": TOKENS_SAID}
    return {**files, "tokenizer.json": tokenizer(), **{name: json.dumps(text).encode() for name, text in said.items()}}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The library asks a hub that holds the model, with a cache of its own."""
    with running() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
        hub.files[NAME] = published(clip(), tmp_path_factory.mktemp("clip"))
        yield hub


def wrapped(photos: Path, out: Path, *words: str) -> Result:
    return CliRunner().invoke(wrap, [f"hf:{NAME}", "--calibrate", str(photos), "--out", str(out), *words])


@pytest.fixture(scope="module")
def bundle(here: Hub, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("wrapped") / "clip.bundle"
    result = wrapped(labelled, out)
    assert result.exit_code == 0, result.output
    assert "with its text tower, whose tokens are the library's for 200 texts" in result.output
    return open_bundle(out)


def test_text_and_images_have_one_width_one_head_and_one_fingerprint(bundle: Bundle) -> None:
    manifest, tower = bundle.manifest, text_tower(bundle)
    assert tower is not None
    assert manifest.text is not None
    assert {"text.onnx", "tokenizer.json", "head.safetensors"} <= manifest.files.keys()
    z = tower.embed("a photo of the cat")
    assert z.shape == (manifest.dimensions,)
    assert z.min() >= 0
    assert z.any()
    other = manifest.model_copy(update={"files": {**manifest.files, "text.onnx": manifest.files["tokenizer.json"]}})
    assert other.sealed().fingerprint != manifest.fingerprint


def test_photos_are_seen_as_the_library_sees_them_and_that_is_recorded(bundle: Bundle) -> None:
    found = {check.name: check for check in bundle.manifest.checks}["pixels"]
    assert found.value <= found.limit
    assert "of the original framework's processor" in found.what


@pytest.mark.nightly
def test_a_view_that_the_library_does_not_have_is_refused(here: Hub, labelled: Path, tmp_path: Path) -> None:
    """Of numbers that a file does not state, the library knows those of the model's family."""
    own = here.files[NAME]
    unsaid = {name: value for name, value in SEEN.items() if not name.startswith("image_")}
    here.files[NAME] = {**own, "preprocessor_config.json": json.dumps(unsaid).encode()}
    try:
        result = wrapped(labelled, tmp_path / "b", "--no-text")
        assert isinstance(result.exception, CheckFailed)
        assert "say how photos are seen with --size" in str(result.exception)
        said = wrapped(labelled, tmp_path / "b", "--no-text", "--std", "0.27", "0.26", "0.28")
    finally:
        here.files[NAME] = own
    assert said.exit_code == 0, said.output
    assert "pixels" not in {check.name for check in open_bundle(tmp_path / "b").manifest.checks}


def test_a_text_vector_is_the_head_of_what_the_library_answers(bundle: Bundle) -> None:
    """Moved by one vector for all texts, which is what two texts' difference tells."""
    head, tower = read_head(bundle.path / "head.safetensors"), text_tower(bundle)
    assert tower is not None
    texts = ["a dog", "the cat", "a photo of a dog", "zebra"]
    rows = Tokenizer(bundle.path / "tokenizer.json", LENGTH, 0).rows(texts)
    with torch.inference_mode():
        features = unit(clip().get_text_features(input_ids=torch.from_numpy(rows)).pooler_output.numpy())
    graph = onnx.load(bundle.path / "text.onnx").graph
    shifts = [numpy_helper.to_array(t) for t in graph.initializer if tuple(t.dims) == (WIDTH,)]
    expected = [head.embed(features + shift) for shift in shifts]
    found = np.stack([tower.embed(text) for text in texts])
    assert min(np.abs(found - each).max() for each in expected) < 2e-3


def test_the_manifest_says_what_was_verified_of_the_text(bundle: Bundle) -> None:
    record, tower = bundle.manifest.text, text_tower(bundle)
    assert record is not None
    assert tower is not None
    assert {check.name: check.value <= check.limit for check in record.checks} == {"torch": True, "batch": True}
    golden = np.zeros(bundle.manifest.dimensions)
    golden[list(record.golden.indices)] = record.golden.values
    assert unit(golden.astype(np.float32)) @ unit(tower.embed(GOLDEN)) > 0.999


def test_a_text_does_not_depend_on_its_company(bundle: Bundle) -> None:
    session = Session(bundle.path / "text.onnx", takes=TOKENS)
    rows = Tokenizer(bundle.path / "tokenizer.json", LENGTH, 0).rows(["a dog", "the cat", "a photo of a dog"])
    alone = np.concatenate([session.run(row[None]) for row in rows])
    np.testing.assert_allclose(session.run(rows), alone, atol=2e-3)


def test_a_text_that_is_too_long_is_refused_or_cut_if_that_is_asked_for(bundle: Bundle) -> None:
    tower = text_tower(bundle)
    assert tower is not None
    long = "a photo of the cat a photo of the dog a cat"  # 12 words
    with pytest.raises(ParameterInvalid, match="has 14 tokens: give at most 12, or ask for truncation"):
        tower.embed(long)
    cut = tower.embed(long, truncate=True)
    np.testing.assert_allclose(cut, tower.embed("a photo of the cat a photo of the dog"), atol=1e-5)  # 10 and two ends
    with pytest.raises(ParameterInvalid, match="characters"):
        tower.embed("a " * 5000)
    with pytest.raises(ParameterInvalid, match="is empty"):
        tower.embed("  ")


def test_wherever_words_are_taken_free_text_is(bundle: Bundle, labelled: Path) -> None:
    tower = text_tower(bundle)
    assert tower is not None
    expected = unit(tower.embed("a photo of the cat"))
    with Encoder(bundle.path) as encoder:
        found = encoder.embed(texts=["a photo of the cat", "zzz qqq"])
        photo = encoder.embed([next(labelled.rglob("*.jpg"))])
    np.testing.assert_allclose(found.numpy()[0], expected, atol=2e-3)
    assert found.fingerprint == photo.fingerprint


def test_the_text_tower_is_part_of_what_is_verified(bundle: Bundle, tmp_path: Path) -> None:
    for name, kind in (("tokenizer.json", DigestMismatch), ("text.onnx", DigestMismatch)):
        copy = shutil.copytree(bundle.path, tmp_path / name)
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        with pytest.raises(kind):
            open_bundle(copy)
        (copy / name).unlink()
        with pytest.raises(BundleInvalid, match=f"lacks {name}"):
            open_bundle(copy)


@pytest.mark.nightly
def test_an_image_tower_alone_has_no_text(here: Hub, labelled: Path, tmp_path: Path) -> None:
    result = wrapped(labelled, tmp_path / "b", "--no-text")
    assert result.exit_code == 0, result.output
    assert open_bundle(tmp_path / "b").manifest.text is None
    assert text_tower(open_bundle(tmp_path / "b")) is None


def test_a_text_tower_that_the_library_reads_otherwise_is_left_out(here: Hub) -> None:
    """With padding on the left, as its configuration asks of the library."""
    own = here.files[NAME]
    said = json.dumps({**TOKENS_SAID, "padding_side": "left"}).encode()
    here.files[NAME] = {**own, "tokenizer_config.json": said}
    try:
        found, word = text_encoder(open_repository(hub_address(f"hf:{NAME}"), 2**30), clip())
    finally:
        here.files[NAME] = own
    assert found is None
    assert "transformers reads texts otherwise than tokenizer.json alone" in word


def test_a_text_tower_that_needs_a_mask_is_left_out_with_a_word(here: Hub) -> None:
    config = library.ChineseCLIPConfig(
        text_config={**SMALL, "vocab_size": 64}, vision_config={**SMALL, "image_size": SIDE, "patch_size": 8}
    )
    repository = open_repository(hub_address(f"hf:{NAME}"), 2**30)
    assert text_encoder(repository, library.ChineseCLIPModel(config))[0] is None
    assert "read tokens without a mask" in text_encoder(repository, library.ChineseCLIPModel(config))[1]


@pytest.mark.nightly
def test_a_tokenizer_of_another_model_is_refused(here: Hub, labelled: Path, tmp_path: Path) -> None:
    own = here.files[NAME]
    here.files[NAME] = {**own, "tokenizer.json": tokenizer(ALPHABET + "".join(chr(i) for i in range(0x400, 0x440)))}
    try:
        result = wrapped(labelled, tmp_path / "b")
    finally:
        here.files[NAME] = own
    assert isinstance(result.exception, DataInvalid)
    assert "it is another model's" in str(result.exception)
    assert not (tmp_path / "b").exists()


@pytest.mark.nightly
def test_both_towers_of_siglip_become_one_bundle_that_reads_texts_as_siglip_was_trained(
    here: Hub, labelled: Path, tmp_path: Path
) -> None:
    """In lower case and without punctuation, whatever the tokenizer's file says of that."""
    torch.manual_seed(0)
    text = {**SMALL, "vocab_size": 64, "max_position_embeddings": LENGTH, "projection_size": 32}
    config = library.SiglipConfig(text_config=text, vision_config={**SMALL, "image_size": SIDE, "patch_size": 8})
    model = library.SiglipModel(config).eval()
    own, here.files[NAME] = here.files[NAME], published(model, tmp_path / "siglip")
    try:
        result = wrapped(labelled, tmp_path / "b")
    finally:
        here.files[NAME] = own
    assert result.exit_code == 0, result.output
    bundle = open_bundle(tmp_path / "b")
    record, tower = bundle.manifest.text, text_tower(bundle)
    assert record is not None
    assert tower is not None
    assert {check.name: check.value <= check.limit for check in record.checks} == {"torch": True, "batch": True}
    np.testing.assert_array_equal(tower.embed("A photo, of the DOG!"), tower.embed("a photo of the dog"))
    rows = tower.tokenizer.rows(["a dog", "the cat", "a photo of a dog"])
    with torch.inference_mode():
        expected = unit(model.get_text_features(input_ids=torch.from_numpy(rows)).pooler_output.numpy())
    head, graph = read_head(bundle.path / "head.safetensors"), onnx.load(bundle.path / "text.onnx").graph
    shifts = [numpy_helper.to_array(t) for t in graph.initializer if tuple(t.dims) == (32,)]
    found = Session(bundle.path / "text.onnx", takes=TOKENS).run(rows)
    assert min(np.abs(found - head.embed(expected + shift)).max() for shift in shifts) < 2e-3
