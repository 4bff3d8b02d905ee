"""Whether the names that are shown under a photo are true: by captions, and as a list that is judged by eye.

    python -m research.models.text_map photo --captions captions --classes imagenet-samples --work work --out OUT
    python benchmarks/names_shown.py photo --captions captions --work work
    python benchmarks/names_shown.py photo --photos freephotos

The first reads what text_map keeps of the captioned photos. A name is right where a caption says it, its everyday
word, or a word that the lexicon knows for its class. Captions say little, so that is a lower bound. Names from captions
were chosen on 5,000 of these photos: only the other 1,000 count. The second names 48 photos that are drawn by chance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_client.local import Encoder
from nonneg_core.shortening import shorten, unit
from nonneg_core.terminal.tables import table
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, open_bundle
from nonneg_runtime.bundle.head_file import HEAD, read_head
from nonneg_runtime.words.column_facts import chance_of, known_names
from nonneg_runtime.words.lexicon import lexicon_of, spelled
from nonneg_vectors.evaluation.uncertainty import interval
from nonneg_vectors.expressions.weightings import Chance
from research.models.lexicon_check import photos_by_word
from research.models.text_map import CHECKING, captions_of, fitted_on

LENGTHS: tuple[tuple[int, int | None], ...] = ((2048, None), (512, None), (2048, 205))
DRAWN, MOST = 48, 120  # photos that are judged by eye; classes of a word that says something
Floats = NDArray[np.float32]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("name")
    arguments.add_argument("--captions", type=Path)
    arguments.add_argument("--work", type=Path)
    arguments.add_argument("--photos", type=Path)
    given = arguments.parse_args()
    bundle = open_bundle(SHIPPED / given.name)
    if given.photos:
        listed(bundle, given.photos)
    if given.captions:
        said = captions_of(given.captions)
        checking = np.setdiff1d(np.arange(len(said)), fitted_on(len(said), CHECKING))
        roots = np.load(given.work / f"{given.name}.captions.npy")
        captions = [said[file] for file in sorted(said)]
        print(json.dumps(by_captions(bundle, roots, captions, checking)))


def by_captions(
    bundle: Bundle, roots: Floats, captions: Sequence[Sequence[str]], checking: NDArray[np.intp]
) -> Mapping[str, object]:
    """Print how many photos get a name, and of how many the strongest is right."""
    z, names = unit(read_head(bundle.path / HEAD).embed(roots)), known_names(bundle)
    truths, says = true_words(bundle), {w: set(p.tolist()) for w, p in photos_by_word(captions).items()}
    rows, answer = [], {}
    for length, kept in LENGTHS:
        stored, chance = unit(shorten(z, length, kept)), chance_of(bundle, length, kept)
        for source in ("direction", "captions"):
            called = {d: n.name for d, n in names.items() if n.source == source}
            photos = range(len(z)) if source == "direction" else checking.tolist()
            shown = {i: name[0] for i in photos if (name := strongest(stored[i], called, chance))}
            right = np.array([any(i in says.get(word, ()) for word in truths[d]) for i, d in shown.items()])
            judged = interval(right)
            share = len(shown) / len(photos)
            rows.append((length, kept or "all", source, share, judged.mean, judged.low, judged.high))
            answer[f"{length}, {kept or 'all'}, {source}"] = [round(x, 3) for x in (share, judged.mean)]
    print(table(["dimensions", "stored", "names", "shown", "said", "low", "high"], rows))
    return answer


def strongest(z: Floats, called: Mapping[int, str], chance: Chance) -> list[int]:
    """Return the dimensions whose names hold for a photo, the strongest first."""
    there = np.flatnonzero(z).tolist()
    return sorted(chance.shown(called, there, z[there].tolist()), key=lambda d: -z[d])


def true_words(bundle: Bundle) -> dict[int, set[str]]:
    """Return the words that say the same as each name."""
    names, lexicon = known_names(bundle), lexicon_of(bundle)
    assert lexicon is not None
    words = {d: {spelled(n.name), spelled(n.name).split()[-1], n.common} for d, n in names.items()}
    own = {n.klass: d for d, n in names.items() if n.klass is not None}
    for word in lexicon.words:
        members = lexicon.members(word)
        for klass in members if len(members) <= MOST else ():
            if klass in own:
                words[own[klass]].add(word)
    return words


def listed(bundle: Bundle, folder: Path) -> None:
    """Print the names of some photos, the strongest first."""
    photos = find_photos(folder).paths
    drawn = [photos[i] for i in np.sort(np.random.default_rng(0).choice(len(photos), DRAWN, replace=False))]
    with Encoder(bundle) as encoder:
        z = unit(encoder.embed(drawn, progress=False).numpy())
    called = {d: n.name for d, n in known_names(bundle).items()}
    chance = chance_of(bundle, bundle.manifest.dimensions)
    for path, row in zip(drawn, z, strict=True):
        print(f"{path.relative_to(folder)}: {', '.join(called[d] for d in strongest(row, called, chance)) or '-'}")


if __name__ == "__main__":
    main()
