"""A two-tower run becomes a bundle with both towers, and stays one where it is ranked again or quantised."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from nonneg_cli.table import nonneg
from nonneg_client import Encoder
from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_export.assembly.run_draft import byte_letters, byte_tokenizer
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.text_tower import TextTower, Tokenizer, text_tower
from nonneg_training.encoder.text_tower import tokens
from nonneg_training.loop.training_checkpoint import load_text
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings

pytestmark = pytest.mark.slow  # it trains, and torch writes two graphs
tokenizers = pytest.importorskip("tokenizers")
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "white": (240, 240, 240)}
LENGTH = 24
LONG = "a square that is green, " * 4


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, noise = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    rows = []
    for i in range(64):
        name, colour = list(COLOURS.items())[i % 4]
        pixels = np.clip(np.array(colour) + noise.integers(-20, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        rows.append((f"{i}.png", f"a {name} square"))
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "caption"), *rows])
    return folder / "captions.csv"


@pytest.fixture(scope="module")
def others(captions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four other squares with their captions."""
    folder = tmp_path_factory.mktemp("others")
    lines = ["image,caption"]
    for name, colour in COLOURS.items():
        Image.new("RGB", (20, 20), colour).save(folder / f"{name}.png")
        lines.append(f"{name}.png,a {name} square")
    (folder / "captions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "captions.csv"


@pytest.fixture(scope="module")
def run(captions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "towers"
    changes = {"method": "two-tower", "data.source": str(captions), "loop.batch": 32, "loop.epochs": 8}
    changes |= {"text.layers": 1, "text.width": 32, "text.length": LENGTH, "model.dimensions": 32}
    changes |= {"views.jitter": 0, "views.grey": 0, "views.size": 16, "optimiser.lr": 0.003}
    train(read_settings(None, changes), out)
    return out


def command(*words: object) -> Result:
    return CliRunner().invoke(nonneg, [str(word) for word in words])


@pytest.fixture(scope="module")
def bundle(run: Path, captions: Path, others: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("exported") / "towers.bundle"
    result = command("export", run, "--calibrate", captions.parent, "--captions", others, "--out", out)
    assert result.exit_code == 0, result.output
    assert "recall on captions.csv: 4 captions, 4 images" in result.output
    return open_bundle(out)


def test_the_text_tower_comes_along_in_the_order_of_the_images(bundle: Bundle, run: Path) -> None:
    tower, texts = text_tower(bundle), ["a red square", "déjà vu ☃", "a green square"]
    assert tower is not None
    with torch.inference_mode():
        expected = load_text(run)(tokens(texts, LENGTH)).numpy()[:, list(bundle.manifest.columns.original)]
    found = np.stack([tower.embed(text) for text in texts])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found.any(axis=1).all()


def test_the_manifest_says_what_was_verified_and_how_often_both_sides_meet(bundle: Bundle) -> None:
    record = bundle.manifest.text
    assert record is not None
    assert {check.name for check in record.checks} == {"torch", "batch"}
    assert [row.dimensions for row in record.recall] == [32]
    assert record.recall[0].text_to_image["1"] >= 0.75
    assert record.recall[0].image_to_text["5"] == 1.0
    assert "recall on captions.csv: 4 captions" in (bundle.path / "quality.md").read_text(encoding="utf-8")


def test_bytes_are_the_same_tokens_as_in_training(tmp_path: Path) -> None:
    assert byte_letters() == {b: tokenizers_letter(b) for b in range(256)}
    (tmp_path / "t.json").write_text(byte_tokenizer(), encoding="utf-8")
    reader = Tokenizer(tmp_path / "t.json", LENGTH, 0)
    for text in ("a cat", "  two  spaces", "Größe, naïve ☃ 猫", "<start> <pad>", "tab\tline\n", "x" * 99):
        assert reader.row(text, truncate=True) == tokens([text], LENGTH)[0].tolist(), text


def tokenizers_letter(byte: int) -> str:
    """As GPT-2 wrote it down first, one byte after the other."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    return chr(byte) if byte in plain else chr(256 + sum(b not in plain for b in range(byte)))


@pytest.mark.nightly
def test_ranking_it_again_moves_both_towers(bundle: Bundle, others: Path, tmp_path: Path) -> None:
    done = command("rank", bundle.path, "--images", others.parent, "--out", tmp_path / "b")
    assert done.exit_code == 0, done.output
    ranked = open_bundle(tmp_path / "b")
    before, after = text_tower(bundle), text_tower(ranked)
    assert before is not None
    assert after is not None
    place = {original: i for i, original in enumerate(bundle.manifest.columns.original)}
    order = [place[original] for original in ranked.manifest.columns.original]
    assert order != list(range(32))
    np.testing.assert_allclose(after.embed("a red square"), before.embed("a red square")[order], atol=1e-5)


@pytest.mark.nightly
def test_quantising_it_keeps_the_text_tower(bundle: Bundle, captions: Path, tmp_path: Path) -> None:
    words = ("--to", "int8", "--images", captions.parent, "--min-quality", "0", "--out", tmp_path / "b")
    done = command("quantize", bundle.path, *words)
    assert done.exit_code == 0, done.output
    before, after = text_tower(bundle), text_tower(open_bundle(tmp_path / "b"))
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(unit(after.embed("a cat")), unit(before.embed("a cat")), atol=1e-5)


def test_captions_are_evaluated_both_ways_by_length(bundle: Bundle, others: Path) -> None:
    words = ("--captions", others, "--bundle", bundle.path, "--lengths", "32,16,32/8", "--json")
    done = command("evaluate", *words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["images"], found["captions"], found["pairs"]) == (4, 4, 4)
    assert [(row["dimensions"], row["top_k"], row["asked"]) for row in found["rows"]] == [
        (32, None, "cut"), (16, None, "cut"), (32, 8, "whole"),
    ]  # fmt: skip
    recorded = bundle.manifest.text
    assert recorded is not None
    assert found["rows"][0]["text to image R@1"] == recorded.recall[0].text_to_image["1"]
    table = command("evaluate", "--captions", others, "--bundle", bundle.path, "--intervals")
    assert "text to image R@1" in table.output
    assert "1.000 [1.000 1.000]" in table.output


def test_a_caption_that_is_too_long_is_left_out_or_cut_if_that_is_asked_for(
    bundle: Bundle, others: Path, tmp_path: Path
) -> None:
    longer = others.read_text(encoding="utf-8") + f'green.png,"{LONG}"\nnowhere.png,a blue square\n'
    path = others.with_name("longer.csv")
    path.write_text(longer, encoding="utf-8")
    without = command("evaluate", path, "--captions", "--bundle", bundle.path, "--json")
    assert [skipped["id"] for skipped in json.loads(without.stdout)["skipped"]] == [
        LONG.strip(),
        str(path.parent / "nowhere.png"),
    ]
    assert "ask for truncation" in without.stderr
    cut = command("evaluate", path, "--captions", "--truncate", "--bundle", bundle.path, "--json")
    assert json.loads(cut.stdout)["captions"] == 5
    with Encoder(bundle.path) as encoder:
        assert len(encoder.embed(texts=[LONG], truncate=True)) == 1


def test_a_server_answers_texts_and_refuses_one_that_is_too_long(
    bundle: Bundle, start_server: Callable[..., str]
) -> None:
    with httpx.Client(base_url=start_server("--model", str(bundle.path))) as client:
        refused = client.post("/embed", json={"texts": [LONG]})
        error = refused.json()["error"]
        assert (refused.status_code, error["field"], error["limit"]) == (422, "texts[0]", LENGTH)
        answered = client.post("/embed", json={"texts": ["a red square", LONG], "truncate": True})
        assert answered.status_code == 200
        assert len(answered.json()["data"]) == 2
        assert answered.json()["fingerprint"] == bundle.manifest.fingerprint


def test_a_tower_that_answers_otherwise_fails_its_self_test(bundle: Bundle) -> None:
    record = bundle.manifest.text
    assert record is not None
    turned = record.golden.model_copy(update={"values": record.golden.values[::-1]})
    with pytest.raises(CheckFailed, match=r"text\.onnx fails its self-test"):
        TextTower(bundle.path, record.model_copy(update={"golden": turned}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--captions", "--selections", "random"), "--selections is for labelled images"),
        (("--truncate",), "--truncate goes with --captions"),
        (("--captions", "--lengths", "32/8+"), "captions are not re-ranked"),
    ],
)
def test_what_is_not_measured_of_captions_is_refused(
    words: tuple[str, ...], message: str, bundle: Bundle, others: Path
) -> None:
    done = command("evaluate", others, *words, "--bundle", bundle.path)
    assert done.exit_code != 0
    assert message in done.output + str(done.exception)


@pytest.mark.nightly
def test_an_image_tower_alone_has_no_captions(run: Path, others: Path, tmp_path: Path) -> None:
    done = command("rank", "photo-fast", "--images", others.parent, "--captions", others, "--out", tmp_path / "b")
    assert isinstance(done.exception, ConfigInvalid)
    assert "captions need a text tower" in str(done.exception)
    assert not (tmp_path / "b").exists()
