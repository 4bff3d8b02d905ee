"""The head on a frozen backbone: every loss trains, prefixes are good, and the result is an encoder like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from nonneg_core.errors import ConfigInvalid
from nonneg_training.data import open_data
from nonneg_training.loop.run_health import nearest_share, read_metrics
from nonneg_training.loop.training_checkpoint import load_encoder, read_checkpoint
from nonneg_training.loop.training_loop import RunOutcome
from nonneg_training.loop.training_run import train
from nonneg_training.methods.head_method import PARTS, sparsity
from nonneg_training.methods.head_start import start_linear
from nonneg_training.setup.run_settings import read_settings


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(backbone: Path, cache: Path, out: Path, **changes: object) -> RunOutcome:
    base = {
        "method": "head",
        "data.source": "digits",
        "model.pretrained": str(backbone),
        "model.dimensions": 96,
        "loss.lengths": (8, 32),
        "loop.epochs": 4,
        "head.cache": str(cache),
    }
    return train(read_settings(None, {**base, **{name.replace("__", "."): v for name, v in changes.items()}}), out)


UNTRAINED = {"optimiser.lr": 1e-12, "loop.epochs": 1}


def error(count: int) -> float:
    """The standard error of the difference of two shares of `count` images, at the most."""
    return float((2 * 0.25 / count) ** 0.5)


@pytest.mark.parametrize(
    "weights",
    [
        {"head.similarity": 1.0},
        {"head.neighbours": 1.0},
        {"head.contrastive": 1.0, "head.views": 2},
        {"head.labels": 1.0},
        {
            "head.reconstruction": 1.0,
            "head.top_k": 8,
            "head.anneal_from": 24,
            "head.anneal_share": 0.1,
            "head.revive": 0.03,
            "head.dead_after": 5,
        },
        {"head.reconstruction": 1.0, "head.top_k": 8, "head.top_k_of": "batch", "head.start": "principal"},
        {
            "head.similarity": 1.0,
            "head.sparsity": 0.1,
            "head.labels": 0.1,
            "head.start": "centred",
            "model.dimensions": 48,
        },
    ],
    ids=lambda weights: "+".join(name.removeprefix("head.") for name in weights),
)
def test_every_loss_goes_down(trained: Path, cache: Path, tmp_path: Path, weights: dict[str, object]) -> None:
    outcome = run(trained, cache, tmp_path / "run", **{"head.neighbours": 0.0, "loop.epochs": 6, **weights})
    rows = read_metrics(tmp_path / "run")
    first, last = (sum(float(row["loss"]) for row in part) / len(part) for part in (rows[:5], rows[-5:]))
    assert last < first
    active = {name.removeprefix("head.") for name in weights} & set(PARTS)
    assert active <= set(rows[0])
    assert outcome.reading is not None
    assert outcome.reading.knn > 0.5, "most nearest neighbours are of the right class; chance is a tenth"


def test_the_result_is_backbone_and_head_in_one_encoder(trained: Path, cache: Path, tmp_path: Path) -> None:
    run(trained, cache, tmp_path / "run")
    encoder, before = load_encoder(tmp_path / "run"), load_encoder(trained)
    for name, tensor in before.backbone.state_dict().items():
        assert torch.equal(encoder.backbone.state_dict()[name], tensor), "the backbone must not move"
    linear, norm = encoder.output_layers()
    assert (linear.in_features, linear.out_features, norm) == (64, 96, None)
    images = open_data("digits", split="test")
    pixels = torch.from_numpy(images.pixels(range(64), encoder.view))
    with torch.inference_mode():
        z = encoder(pixels)
        torch.testing.assert_close(z, F.relu(linear(before.features(pixels))))


def test_a_head_without_an_activation_is_the_control_of_one_with_it(trained: Path, cache: Path, tmp_path: Path) -> None:
    for name in ("relu", "identity"):
        changes = {"head.neighbours": 0.0, "head.contrastive": 1.0, "head.views": 2, "model.activation": name}
        run(trained, cache, tmp_path / name, **changes, loop__epochs=2)
    signed, cut = (load_encoder(tmp_path / name) for name in ("identity", "relu"))
    images = open_data("digits", split="test")
    pixels = torch.from_numpy(images.pixels(range(64), signed.view))
    with torch.inference_mode():
        assert (signed(pixels) < 0).any()
        assert (cut(pixels) >= 0).all()


@pytest.mark.slow
def test_nested_lengths_make_better_prefixes(trained: Path, cache: Path, tmp_path: Path) -> None:
    """Than the same run without them, and than the start; by more than chance, over seeds, at no cost to the whole."""
    images = open_data("digits", split="test")
    labels, lengths, seeds = torch.from_numpy(images.labels), (8, 16, 96), (0, 1, 2)
    kinds = {"nested": {"loss.lengths": (4, 8, 16, 32)}, "plain": {"loss.lengths": ()}, "start": UNTRAINED}
    score: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for seed in seeds:
        for name, changes in kinds.items():
            out = tmp_path / f"{name}-{seed}"
            run(trained, cache, out, **{"loop.epochs": 10, "optimiser.lr": 3e-3, "seed": seed, **changes})
            encoder = load_encoder(out)
            with torch.inference_mode():
                z = encoder(torch.from_numpy(images.pixels(range(len(labels)), encoder.view)))
            score[name].append([nearest_share(z[:, :k], labels) for k in lengths])
    nested, plain, begun = (torch.tensor(score[name]) for name in kinds)  # (seeds, lengths)
    assert (nested[:, :2] > plain[:, :2]).all()
    assert (nested[:, :2] > begun[:, :2]).all()
    chance = error(len(labels) * len(seeds))
    for other in (plain, begun):
        gain = (nested - other).mean(dim=0)
        assert (gain[:2] > 2 * chance).all()
        assert gain[2] > -2 * chance


def test_the_backbone_stays_in_evaluation_mode_and_out_of_the_optimiser(
    trained: Path, cache: Path, tmp_path: Path
) -> None:
    run(trained, cache, tmp_path / "run", loop__epochs=1)
    moments = read_checkpoint(tmp_path / "run").part("optimiser.")
    assert {name.partition(".")[0] for name in moments} == {"0", "1"}  # weight and bias of the head


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.pretrained": None}, "needs a backbone that has learnt"),
        ({"head.contrastive": 1.0}, "none are cached"),
        ({"head.start": "centred"}, "no more than the backbone's 64"),
        ({"head.start": "both", "model.dimensions": 64}, "needs more dimensions than the backbone's 64"),
        ({"loss.lengths": (97,)}, "does not fit 96"),
        ({"head.neighbours": 0.0}, "no loss"),
        ({"model.activation": "gelu"}, "does not go with activation=gelu"),
        ({"model.activation": "identity", "head.top_k": 8}, "head.top_k is about active dimensions"),
    ],
)
def test_what_cannot_be_is_refused(
    trained: Path, cache: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        run(trained, cache, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_start_answers_centred_directions() -> None:
    x = torch.rand(50, 6) + 3
    for how, width in (("random", 5), ("centred", 5), ("principal", 5), ("both", 8)):
        layer = torch.nn.Linear(6, width)
        start_linear(layer, x, how, torch.Generator().manual_seed(0))
        z = layer(x)
        torch.testing.assert_close(z.mean(dim=0), torch.zeros(width), atol=1e-4, rtol=0)
        assert float(z.square().mean().sqrt().detach()) == pytest.approx(1, rel=1e-3)


def test_sparsity_counts_how_spread_a_vector_is() -> None:
    assert float(sparsity(torch.ones(2, 16))) == pytest.approx(1)
    assert float(sparsity(torch.eye(16))) == pytest.approx(0.25)
