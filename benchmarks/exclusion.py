"""Exclusion by words: `"a" !"b"` on mosaics of two labelled photos, and `photo !"b"` on labelled photos.

    python benchmarks/exclusion.py imagenette/val pets.npz [--bundle photo]

The first argument is a folder with a folder for each class, named by ImageNet's wnid or by a known word. Every two
classes of it make twelve mosaics, side by side; every class a is asked for by its name without every other one, b:
right is what shows a and not b. The second is a file of vectors: each photo is asked for without the class that is most
frequent among its ten nearest besides its own, where a dimension stands for that class.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from nonneg_client import Embeddings
from nonneg_client.local import Encoder
from nonneg_core.files.image_files import find_images
from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.lexicon import lexicon_of
from nonneg_runtime.words.text_vector import vector_of
from nonneg_vectors.expressions.weightings import as_row

EACH = 12  # mosaics of two classes
SIDE = 448  # pixels of a mosaic
TEN = 10
Floats = NDArray[np.float32]
Chosen = NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """One query without one class."""

    query: Floats  # (D,)
    word: str  # of what is unwanted
    right: Chosen  # (n,)
    excluded: Chosen  # (n,)
    itself: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", type=Path)
    parser.add_argument("labelled", type=Path)
    parser.add_argument("--bundle", default="photo")
    options = parser.parse_args()
    bundle = open_bundle(options.bundle)
    z, shown = mosaics(bundle, options.classes)
    rows = judged("mosaics", bundle, z, list(asked_by_words(bundle, shown)))
    held = Embeddings.load(options.labelled)
    labels = np.array([name.split("/")[0] for name in held.ids or ()])
    rows += judged(options.labelled.stem, bundle, held.numpy(), list(asked_by_photos(bundle, held.numpy(), labels)))
    names = ["photos", "rule", "queries", "excluded in ten", "right in ten", "right of all lost"]
    print(table(names, rows))
    print(json.dumps({"fingerprint": bundle.manifest.fingerprint, "rows": rows}))


def judged(what: str, bundle: Bundle, z: Floats, cases: list[Case]) -> list[tuple[str, str, int, float, float, float]]:
    """Return a row for each way to say it; the last: the share of all right photos that the exclusion takes away."""
    rows = []
    for rule in ("not excluded", "- half of it", "- it", "! it"):
        found = np.array([one(bundle, z, case, rule) for case in cases])
        excluded, right, lost = found.mean(axis=0)
        rows.append((what, rule, len(cases), float(excluded), float(right), float(lost)))
    return rows


def one(bundle: Bundle, z: Floats, case: Case, rule: str) -> tuple[float, float, float]:
    """Return one case's shares of excluded and of right ones in the first ten, and of the right ones that are lost."""
    weight = {"- half of it": 0.5, "- it": 1.0}.get(rule, 0.0)
    scores = z @ (case.query - np.float32(weight) * vector_of(bundle, case.word))
    allowed = np.ones(len(z), bool)
    if rule == "! it":
        row = as_row(vector_of(bundle, case.word))
        allowed = z[:, row[0]] @ row[1] < chance_of(bundle, z.shape[1]).of_words(row)
    if case.itself is not None:
        scores[case.itself] = -np.inf
    order = np.argsort(-np.where(allowed, scores, -np.inf), kind="stable")[:TEN]
    return (
        float(case.excluded[order].mean()),
        float(case.right[order].mean()),
        float((case.right & ~allowed).sum() / case.right.sum()),
    )


def mosaics(bundle: Bundle, folder: Path) -> tuple[Floats, NDArray[np.str_]]:
    """Return vectors of mosaics, and the two classes that each shows, (n, 2)."""
    photos = {place.name: sorted(find_images(place)) for place in sorted(folder.iterdir()) if place.is_dir()}
    rng = np.random.default_rng(0)
    pictures, shown = [], []
    for a, b in combinations(photos, 2):
        for _ in range(EACH):
            pair = [photos[name][int(rng.integers(len(photos[name])))] for name in (a, b)]
            pictures.append(side_by_side(*(pair if rng.random() < 0.5 else pair[::-1])))
            shown.append((a, b))
    with Encoder(bundle) as encoder:
        return encoder.embed(pictures, progress=False).numpy(), np.array(shown)


def side_by_side(left: Path, right: Path) -> bytes:
    """Return the middle of each photo, twice as tall as wide, as one picture."""
    mosaic = Image.new("RGB", (SIDE, SIDE))
    for x, path in ((0, left), (SIDE // 2, right)):
        mosaic.paste(ImageOps.fit(Image.open(path).convert("RGB"), (SIDE // 2, SIDE)), (x, 0))
    buffer = io.BytesIO()
    mosaic.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def asked_by_words(bundle: Bundle, shown: NDArray[np.str_]) -> Iterator[Case]:
    """Yield every class that a dimension stands for, without every other one."""
    words = {name: word for name in np.unique(shown) if (word := word_of(bundle, name)) is not None}
    for a in words:
        for b, word in words.items():
            if a != b:
                with_a, with_b = (shown == a).any(axis=1), (shown == b).any(axis=1)
                yield Case(vector_of(bundle, words[a]), word, with_a & ~with_b, with_b)


def asked_by_photos(bundle: Bundle, z: Floats, labels: NDArray[np.str_]) -> Iterator[Case]:
    """Yield each photo without the other class that it is most often taken for."""
    words = {name: word for name in np.unique(labels) if (word := word_of(bundle, name)) is not None}
    for i, scores in enumerate(z @ z.T):
        scores[i] = -np.inf
        near = labels[np.argsort(-scores, kind="stable")[:TEN]]
        names, counts = np.unique(near[near != labels[i]], return_counts=True)
        if len(names) and (other := names[counts.argmax()]) in words:
            right = labels == labels[i]
            right[i] = False
            yield Case(z[i], words[other], right, labels == other, i)


def word_of(bundle: Bundle, name: str) -> str | None:
    """Return the word for a folder's class, if a dimension stands for it."""
    lexicon = lexicon_of(bundle)
    assert lexicon is not None
    numbers = {each.wnid: number for number, each in enumerate(lexicon.classes)}
    called = {meaning: word for word, meaning in reversed(lexicon.words.items())}
    word = called.get(numbers[name]) if name in numbers else name.replace("_", " ")
    try:
        return word if word is not None and lexicon.own(word) else None
    except KeyError:
        return None


if __name__ == "__main__":
    main()
