"""What adapting a model to photos gains, and loses on others: `python benchmarks/adapt.py LABELLED... [--from photo]`.

A labelled folder holds a folder of images a class. Of each folder one half adapts and the other half, each photo
asking for the others of its class, is judged: `same classes` halves every class, `new classes` takes half of the
classes. `other kinds` judges the heads of `same classes` on the other folders. Four ways: the principal components of
the first half's own vectors, and heads without labels, these with the front kept, and with labels; without labels also
on fewer photos (--photos). Cells are P@1 and mAP@100 by cosine, means over the folders, and the change with a 95 %
interval (bootstrap over all queries). `verdicts` is what `nonneg adapt` says of three draws of each half, with labels,
beside the truth on the other half. Prints a table a part, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.arrays import Rows
from nonneg_core.shortening import unit
from nonneg_export.adapt.backbone import FeatureBackbone, SourceBundle, open_source
from nonneg_export.adapt.fitting import JUDGED, Parts, fit
from nonneg_export.adapt.judging import by_labels, lengths_of
from nonneg_export.adapt.photo_features import Features, compute_features
from nonneg_export.adapt.photo_labels import UNLABELLED, Labels, labels_of
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_runtime.heads.feature_head import Weights
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.retrieval import as_queries, cut_to_length
from nonneg_vectors.evaluation.uncertainty import paired

Numbers = NDArray[np.int64]
Scores = dict[tuple[str, str], NDArray[np.float64]]  # (length, metric) -> one number a query
Embedding = Callable[[Rows], NDArray[np.float32]]
METRICS = ("P@1", "mAP@100")
DIMENSIONS = 2048
FITS = {"without labels": (False, False), "front kept": (False, True), "with labels": (True, False)}  # labels, front
WAYS = ("components", *FITS)


@dataclass(frozen=True, eq=False)
class Data:
    """One folder."""

    name: str
    features: Features
    labels: Labels
    known: dict[bytes, Scores] = field(default_factory=dict)

    def once(self, embed: Embedding, chosen: Numbers) -> Scores:
        """Return the same of the model that is adapted, computed once for the same photos."""
        key = chosen.tobytes()
        if key not in self.known:
            self.known[key] = self.judged(embed, chosen)
        return self.known[key]

    def judged(self, embed: Embedding, chosen: Numbers) -> Scores:
        """Return the scores of some of its photos."""
        z, codes = embed(self.features.roots(chosen)), self.labels.codes[chosen]
        found = {}
        for length in lengths_of(DIMENSIONS):
            report = retrieval(cut_to_length(z, length), codes, as_queries(z, length), same=True).scores()
            found |= {(str(length), metric): report[metric] for metric in METRICS}
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", type=Path, nargs="+")
    parser.add_argument("--from", dest="source", default="photo")
    parser.add_argument("--photos", type=int, nargs="*", default=[50, 100, 200, 400])
    options = parser.parse_args()
    source = open_source(options.source)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        backbone = FeatureBackbone(source, Path(work), 2)
        data = [read(source, backbone, folder) for folder in options.labelled]
    found = []
    for title, rows in parts(source, data, options.photos):
        print(f"\n{title}\n\n{table(rows)}", flush=True)
        found.append({"part": title, "rows": rows})
    found.append({"part": "verdicts", "rows": [verdicts(source, data)]})
    print(f"\nverdicts: {found[-1]['rows']}")
    print("\n" + json.dumps({"found": found, "model": options.source, **provenance()}))


def read(source: SourceBundle, backbone: FeatureBackbone, folder: Path) -> Data:
    """Return the features of a folder, from the cache where they are there."""
    features = compute_features(source, backbone, find_photos(folder))
    return Data(folder.name, features, labels_of(features, None))


def parts(source: SourceBundle, data: list[Data], photos: list[int]) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Yield a title and the rows of a table, part by part."""
    before = source.head.embed
    for way in WAYS:
        halves = [(each, *of_halves(each.labels.codes)) for each in data]
        fitted = [(each, adapted(source, each, one, way), other) for each, one, other in halves]
        yield f"{way}, same classes", compared(before, fitted)
        new = [(each, *of_classes(each.labels.codes)) for each in data]
        yield f"{way}, new classes", compared(before, [(e, adapted(source, e, a, way), b) for e, a, b in new])
        others = [
            (other, embed, np.arange(len(other.features)))
            for each, embed, _ in fitted
            for other in data
            if other is not each
        ]
        if others:
            yield f"{way}, other kinds of photos", compared(before, others)
    for count in photos:
        some = [(each, *of_halves(each.labels.codes)) for each in data]
        few = [(each, adapted(source, each, spread(one, count), "without labels"), other) for each, one, other in some]
        yield f"without labels, {count} photos", compared(before, few)


def verdicts(source: SourceBundle, data: list[Data]) -> dict[str, float]:
    """Compare what a held-out quarter of one half says with what is true of the other half."""
    cells = []
    for each, draw in product(data, range(3)):
        one, other = of_halves(each.labels.codes, draw)
        apart = np.random.default_rng(draw).random(len(one)) < 1 / JUDGED
        after = fit(source, each.features, Parts(one[~apart], one[:0], 0), each.labels, Weights()).head
        sides = [by_labels(source.head, after, each.features, each.labels, some) for some in (one[apart], other)]
        cells += [(s.difference, t.difference, s.low <= t.difference <= s.high) for s, t in zip(*sides, strict=True)]
    said, true, within = np.array(cells, dtype=np.float64).mean(axis=0).round(4).tolist()
    return {"gain said": said, "true": true, "truth within the interval": within}


def adapted(source: SourceBundle, data: Data, chosen: Numbers, way: str) -> Embedding:
    """Return what makes vectors, fitted to some of the photos."""
    if way == "components":
        return components(source.head.embed, data.features.roots(chosen))
    known, keep_front = FITS[way]
    labels = data.labels if known else Labels(np.full(len(data.features), UNLABELLED), ())
    parts = Parts(chosen, chosen[:0], 0)
    return fit(source, data.features, parts, labels, Weights(), keep_front=keep_front).head.embed


def components(embed: Embedding, rows: Rows) -> Embedding:
    """Return the principal components of these photos' vectors: dense, signed, the first ones first."""
    z = unit(embed(rows))
    mean = z.mean(axis=0)
    axes = np.linalg.svd(z - mean, full_matrices=False)[2]
    return lambda others: (unit(embed(others)) - mean) @ axes.T


def compared(before: Embedding, cases: list[tuple[Data, Embedding, Numbers]]) -> list[dict[str, object]]:
    """Return a row a length: means over the cases, and the change over all queries."""
    pairs = [(data.once(before, chosen), data.judged(after, chosen)) for data, after, chosen in cases]
    rows: list[dict[str, object]] = []
    for length in dict.fromkeys(length for length, _ in pairs[0][0]):
        row: dict[str, object] = {"length": length}
        for metric in METRICS:
            one, other = ([side[length, metric] for side in sides] for sides in zip(*pairs, strict=True))
            weights = np.concatenate(
                [np.full(len(scores), len(np.concatenate(one)) / len(scores) / len(one)) for scores in one]
            )
            change = paired(np.concatenate(one) * weights, np.concatenate(other) * weights)
            row |= {
                metric: round(float(np.mean([scores.mean() for scores in one])), 4),
                f"{metric} adapted": round(float(np.mean([scores.mean() for scores in other])), 4),
                f"{metric} low": round(change.low, 4),
                f"{metric} high": round(change.high, 4),
                f"{metric} each": [[round(float(s.mean()), 4) for s in pair] for pair in zip(one, other, strict=True)],
            }
        rows.append(row)
    return rows


def of_halves(codes: Numbers, draw: int = 0) -> tuple[Numbers, Numbers]:
    """Return two halves of every class."""
    place = np.zeros(len(codes), dtype=np.int64)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        place[members] = np.random.default_rng(int(code) + draw * len(codes)).permutation(len(members))
    return np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2 == 1)


def of_classes(codes: Numbers) -> tuple[Numbers, Numbers]:
    """Return the photos of half of the classes, and the others."""
    order = np.random.default_rng(0).permutation(codes.max() + 1)
    one = np.isin(codes, order[: len(order) // 2])
    return np.flatnonzero(one), np.flatnonzero(~one)


def spread(chosen: Numbers, count: int) -> Numbers:
    """So many of them, drawn by chance."""
    return np.sort(np.random.default_rng(0).permutation(chosen)[:count])


def table(rows: list[dict[str, object]]) -> str:
    """Markdown."""
    lines = ["| length | P@1 | adapted | | mAP@100 | adapted | |", "|---|---:|---:|---|---:|---:|---|"]
    for row in rows:
        cells = [str(row["length"])]
        for metric in METRICS:
            low, high = row[f"{metric} low"], row[f"{metric} high"]
            cells += [f"{row[metric]:.3f}", f"{row[f'{metric} adapted']:.3f}", f"{low:+.3f} to {high:+.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
