"""Where matches end: the line that the manifest's statistics give each query, beside the best single cosine.

    nonneg embed pets/ -o pets.npz                      # and others: folders by class
    python benchmarks/matches.py pets.npz caltech101.npz cars.npz [--bundle photo]

Every photo asks its own set, where the hits of its class among the ten nearest are right ones, and every other set,
where no hit is right (classes that two sets show are left out). Each rule gets the one threshold, over all sets, at
which it loses two points of the right ones; then the share of false hits among the ten nearest that pass, and of
queries for which one or more pass. `shipped` is the line as it is. Then the same for the words that the lexicon knows
of the classes, at the thresholds that photos have set, and for shorter vectors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_client import Embeddings
from nonneg_core.shortening import shorten
from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.lexicon import lexicon_of
from nonneg_runtime.words.text_vector import names_in, vector_of
from nonneg_vectors.expressions.weightings import DEVIATIONS, Chance

IN_TWO_SETS = {  # of Caltech-101, what pets or cars show, too
    "car_side", "dalmatian", "wild_cat", "Leopards", "cougar_body", "cougar_face", "snoopy", "garfield",
}  # fmt: skip
NEAREST = 10
LOST = 0.02  # of the right ones
LENGTHS = ((512, None), (128, None), (2048, 205), (2048, 64))  # dimensions, and what is stored of each vector
Floats = NDArray[np.float64]
Rule = Callable[[Floats, Floats], Floats]  # scores (queries, 10) and the queries (queries, D) -> what is compared
Sets = Mapping[str, tuple[Floats, NDArray[np.str_]]]


@dataclass(frozen=True)
class Asked:
    """The scores of the ten nearest of every query, by what they are."""

    queries: Floats  # (n, D)
    scores: Floats  # (n, 10)
    right: NDArray[np.bool_]  # (n, 10)
    own: bool  # asked in their own set: in another no hit is right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", nargs="+")
    parser.add_argument("--bundle", default="photo")
    options = parser.parse_args()
    bundle = open_bundle(options.bundle)
    sets = {path: read(path) for path in options.vectors}
    whole = bundle.manifest.dimensions
    asked = {"photos": list(by_photos(sets)), "words": list(by_words(sets, bundle))}
    rows = compared(asked, chance_of(bundle, whole))
    for dimensions, stored in LENGTHS:
        said = f"photos, {dimensions} dimensions" if stored is None else f"photos, {stored} stored, asked whole"
        rows += compared({said: list(by_photos(sets, dimensions, stored))}, chance_of(bundle, dimensions, stored))
    names = ["asked by", "rule", "threshold", "right lost", "false hits pass", "queries with a false hit"]
    print(table(names, rows))
    print(json.dumps({"fingerprint": bundle.manifest.fingerprint, "rows": rows}))


def compared(asked: Mapping[str, list[Asked]], chance: Chance) -> list[tuple[str, str, float, float, float, float]]:
    """Return a row for each kind of query and each rule; the first kind sets the thresholds."""
    rules: dict[str, Rule] = {"one cosine": lambda scores, _: scores, "the line": deviations_of(chance)}
    rows = []
    for name, rule in rules.items():
        right = [rule(one.scores, one.queries)[one.right] for one in next(iter(asked.values()))]
        threshold = float(np.quantile(np.concatenate(right), LOST))
        rows += [(kind, name, *judged(of, rule, threshold)) for kind, of in asked.items()]
    return rows + [(kind, "shipped", *judged(of, rules["the line"], DEVIATIONS)) for kind, of in asked.items()]


def judged(asked: list[Asked], rule: Rule, threshold: float) -> tuple[float, float, float, float]:
    """Return the threshold, the share of right ones lost, of false ones that pass, and of queries with one of those."""
    right = np.concatenate([rule(one.scores, one.queries)[one.right] for one in asked])
    passing = np.concatenate([rule(one.scores, one.queries) for one in asked if not one.own]) >= threshold
    return threshold, float((right < threshold).mean()), float(passing.mean()), float(passing.any(axis=1).mean())


def deviations_of(chance: Chance) -> Rule:
    """Return how far a score lies above what random photos have with its query, as `Chance.line` counts it."""

    def rule(scores: Floats, queries: Floats) -> Floats:
        usual = queries @ chance.mean
        weights = queries - usual[:, None] * chance.mean
        spread = np.sqrt((1 - chance.mean @ chance.mean) * (weights**2 @ chance.variance))
        return (scores - usual[:, None]) / spread[:, None]

    return rule


def by_photos(sets: Sets, dimensions: int | None = None, stored: int | None = None) -> Iterator[Asked]:
    """Yield the queries where every set asks itself and every other."""
    for own, (z, labels) in sets.items():
        queries = shorten(z, dimensions).astype(np.float64)
        for other, (gallery, names) in sets.items():
            scores = queries @ shorten(gallery, dimensions, stored).T
            if own == other:
                np.fill_diagonal(scores, -1)
            yield nearest(queries, scores, labels, names, own == other)


def by_words(sets: Sets, bundle: Bundle) -> Iterator[Asked]:
    """Yield the queries where the words of a set's classes ask it and every other."""
    for own, (_, labels) in sets.items():
        known = {label: v for label in np.unique(labels) if (v := word(bundle, label)) is not None}
        if known:
            z = np.stack(list(known.values()))
            for other, (gallery, names) in sets.items():
                yield nearest(z, z @ gallery.T, np.array(list(known)), names, own == other)


def nearest(z: Floats, scores: Floats, labels: NDArray[np.str_], names: NDArray[np.str_], own: bool) -> Asked:
    """Return the ten largest scores of each query."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]
    right = (names[order] == labels[:, None]) & own
    return Asked(z, np.take_along_axis(scores, order, 1), right, own)


def word(bundle: Bundle, label: str) -> Floats | None:
    """Return the vector of a class's name, if the lexicon knows all of it."""
    lexicon = lexicon_of(bundle)
    names = None if lexicon is None else names_in(lexicon, label.replace("_", " "))
    return vector_of(bundle, label.replace("_", " ")).astype(np.float64) if names and names.whole else None


def read(path: str) -> tuple[Floats, NDArray[np.str_]]:
    """Return vectors and the folders that their photos lie in, but for what two sets show."""
    held = Embeddings.load(path)
    labels = np.array([name.split("/")[0] for name in held.ids or ()])
    kept = ~np.isin(labels, list(IN_TWO_SETS))
    return held.numpy().astype(np.float64)[kept], labels[kept]


if __name__ == "__main__":
    main()
