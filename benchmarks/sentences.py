"""Sentences on photos that chose nothing: captions that find their photo, things that are on none, names of classes.

    python -m research.models.text_map photo --held-out 1000 --captions captions --classes imagenet-samples \
        --work work --out held-out.bundle
    python benchmarks/sentences.py held-out.bundle captions --named pets --named caltech101

The map is fitted on 5,000 of the captioned photos; one caption of each of the other 1,000 is asked. Words for things
that none of these photos' captions names should have no match, words that three captions name should have one. With
--named: folders of photos by class; a class is asked by its folder's name, and words that name no class there and chose
nothing say how often what is not there has a match. Intervals hold 95 %, over queries.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_client.local import Encoder
from nonneg_core.shortening import shorten, unit
from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.lexicon import lexicon_of
from nonneg_runtime.words.text_vector import names_in, vector_of
from nonneg_vectors.evaluation.uncertainty import interval
from nonneg_vectors.expressions.expression import Expression, Term, Words
from nonneg_vectors.expressions.weightings import as_row
from research.models.lexicon_check import photos_by_word
from research.models.text_map import captions_of, fitted_on

HELD_OUT, FEWEST, TEN = 1000, 3, 10
LENGTHS: tuple[tuple[int, int | None], ...] = ((2048, None), (512, None), (128, None), (2048, 205), (2048, 64))
ABSENT = [
    "submarine", "giraffe", "penguin", "zebra", "microscope", "toaster", "violin", "spaceship", "volcano",
    "octopus", "pyramid", "pineapple", "stapler", "hedgehog", "helicopter", "satellite", "sushi", "whale",
    "typewriter", "tractor", "aquarium", "stethoscope", "igloo", "hamburger", "banana", "spider",
    "refrigerator", "lobster", "peacock", "skeleton", "cactus", "lighthouse", "windmill",
]  # fmt: skip
PRESENT = [
    "dog", "man", "woman", "child", "beach", "snow", "bicycle", "ball", "grass", "water", "mountain",
    "football", "car", "street", "swing", "boy", "girl", "soccer", "skateboard", "river", "rock", "crowd",
    "people", "horse", "motorcycle", "baby", "basketball", "tennis", "sand", "ocean", "tree", "forest", "bird",
    "hat", "sunglasses", "guitar", "building", "wall", "boat", "snowboarder", "lake", "field", "bench",
    "playground",
]  # fmt: skip
ELSEWHERE = [
    "escalator", "castle", "mailbox", "snowman", "tunnel", "carousel", "fireworks", "orchestra", "swimming pool",
    "bathtub", "wedding cake", "tent", "newspaper", "traffic light", "waterfall", "ladder", "telescope",
    "sewing machine", "vacuum cleaner", "washing machine", "rainbow", "fountain", "hospital", "classroom", "train",
    "bridge", "surfer", "ice hockey", "garlic", "bus",
]  # fmt: skip  # on no photo of pets and of Caltech-101, by their classes
Floats = NDArray[np.float32]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("bundle")
    arguments.add_argument("captions", type=Path)
    arguments.add_argument("--named", action="append", type=Path, default=[])
    given = arguments.parse_args()
    bundle, said = open_bundle(given.bundle), captions_of(given.captions)
    files = np.array(sorted(said))
    others = np.setdiff1d(np.arange(len(files)), fitted_on(len(files), HELD_OUT))
    captions = [said[file] for file in files[others]]
    with Encoder(bundle) as encoder:
        z = encoder.embed([given.captions / file for file in files[others]], progress=False).numpy()
        answer = {
            "recall": recall(bundle, z, [texts[0] for texts in captions]),
            "matches": matches(bundle, z, captions),
            "names": {folder.name: names(encoder, bundle, folder) for folder in given.named},
        }
    print(json.dumps(answer | {"fingerprint": bundle.manifest.fingerprint}))


def recall(bundle: Bundle, z: Floats, asked: list[str]) -> dict[str, list[float]]:
    """Print how often a caption finds its photo among the first ten, at each length."""
    queries = np.stack([vector_of(bundle, text, truncate=True) for text in asked])
    rows, found = [], {}
    for length, kept in LENGTHS:
        scores = unit(queries[:, :length]) @ unit(shorten(z, length, kept)).T
        places = (scores >= np.diag(scores)[:, None]).sum(axis=1)
        at_ten = interval(places <= TEN)
        rows.append((length, kept or "all", float((places <= 1).mean()), at_ten.mean, at_ten.low, at_ten.high))
        found[f"{length}, {kept or 'all'}"] = [round(x, 3) for x in (at_ten.mean, at_ten.low, at_ten.high)]
    print(table(["dimensions", "stored", "R@1", "R@10", "low", "high"], rows))
    return found


def matches(bundle: Bundle, z: Floats, captions: list[list[str]]) -> dict[str, list[str]]:
    """Print how many words for what is on no photo have a match, and how many for what is there have none."""
    shown = photos_by_word(captions)
    absent = [word for word in ABSENT if word not in shown]
    present = [word for word in PRESENT if len(shown.get(word, ())) >= FEWEST]
    rows, wrong = [], {}
    for length, kept in LENGTHS:
        stored = unit(shorten(z, length, kept))
        false = [word for word in absent if has_match(bundle, word, stored, length, kept)]
        lost = [word for word in present if not has_match(bundle, word, stored, length, kept)]
        rows.append((length, kept or "all", f"{len(false)} of {len(absent)}", f"{len(lost)} of {len(present)}"))
        wrong[f"{length}, {kept or 'all'}"] = [*false, "|", *lost]
    print(table(["dimensions", "stored", "absent, but matched", "there, and not matched"], rows))
    return wrong


def has_match(bundle: Bundle, word: str, stored: Floats, length: int, kept: int | None) -> bool:
    """Return whether the best photo shares more with a word than random photos may."""
    query = unit(vector_of(bundle, word)[:length])
    asked = Expression(((Term(1.0, Words(word)),),))
    return bool((stored @ query).max() >= chance_of(bundle, length, kept).of_query(asked, [as_row(query)]).best)


def names(encoder: Encoder, bundle: Bundle, folder: Path) -> dict[str, float]:
    """Print P@10 of classes asked by their folders' names, known to the lexicon or not, and what has a match."""
    held = encoder.embed(folder, progress=False)
    labels, z, lexicon = np.array([Path(name).parent.name for name in held.ids or ()]), held.numpy(), lexicon_of(bundle)
    assert lexicon is not None
    words = {label: label.replace("_", " ").replace("-", " ").lower() for label in np.unique(labels)}
    known = {label: names_in(lexicon, word) for label, word in words.items()}
    rows, answer = [], {}
    for length, kept in LENGTHS:
        stored, of = unit(shorten(z, length, kept)), {True: list[float](), False: list[float]()}
        for label, word in words.items():
            nearest = np.argsort(-(stored @ vector_of(bundle, word)[:length]), kind="stable")[:TEN]
            of[known[label].whole and bool(known[label].known)].append(float((labels[nearest] == label).mean()))
        lost = sum(not has_match(bundle, word, stored, length, kept) for word in words.values())
        false = [word for word in ELSEWHERE if has_match(bundle, word, stored, length, kept)]
        matched = f"{lost} of {len(words)}", f"{len(false)} of {len(ELSEWHERE)}"
        rows.append((length, kept or "all", len(of[True]), *(float(np.mean(p)) for p in of.values()), *matched))
        answer[f"{length}, {kept or 'all'}"] = round(float(np.mean(of[True])), 3)
    columns = [
        folder.name,
        "stored",
        "known",
        "P@10",
        "P@10 of others",
        "there, and not matched",
        "elsewhere, but matched",
    ]
    print(table(columns, rows))
    return answer


if __name__ == "__main__":
    main()
