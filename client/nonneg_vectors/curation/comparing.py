"""A collection compared with itself or with another, so that a run that was stopped goes on where it was.

Each block is put away in the user's cache, under a name made of the vectors, the thumbnails and the limits; a later run
with the same ones reads it. The last few comparisons are kept.
"""

import hashlib
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Floats, Places
from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.user_cache import KEPT, cache_folder, evict
from nonneg_core.pixels.likeness import Thumbnails
from nonneg_core.process.long_runs import Interrupts
from nonneg_core.terminal.progress import Progress, ProgressBar
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.curation.neighbours import Block, PairLimits, Pairs, Scan, Tiling, joined, starts

NEIGHBOURS = 10
TILING = Tiling()
MOST_PAIRS = 5_000_000
FORMAT = 3  # of the blocks; one more when what is in them changes


def compare(
    one: Collection,
    limits: PairLimits,
    thumbnails: Thumbnails | None,
    other: Collection | None = None,
    other_thumbnails: Thumbnails | None = None,
    *,
    shown: Progress = None,
    tiling: Tiling = TILING,
    capacity: int = KEPT,
) -> tuple[Pairs, Places, Floats]:
    """Return all pairs, and each photo's nearest with their cosines; `kept` comparisons stay in the cache."""
    if other is not None:
        one.vectors.same_form(other.vectors)
    collections = [one] if other is None else [one, other]
    parts = [thumbnails, other_thumbnails][: len(collections)]
    folder = _folder(collections, parts, limits)
    scan: Scan | None = None
    blocks: list[Block] = []
    pairs = 0
    with Interrupts() as interrupts, ProgressBar("comparing", len(one), shown=shown) as bar:
        for start in starts(len(one), tiling.rows):
            path = folder / f"{start:08d}.npz"
            block = _read(path)
            if block is None:
                if scan is None:
                    scan = _scan(collections, parts, limits, tiling)
                    for known in blocks:
                        scan.learn(known)
                block = scan.block(start)
                with interrupts.deferred():
                    _write(path, block)
            blocks.append(block)
            pairs += len(block.pairs)
            _check(pairs, limits)
            bar.move(_done(start + tiling.rows, len(one), alone=other is None))
    with suppress(OSError):
        folder.touch()
    evict(folder.parent, capacity)
    return joined(blocks)


def _done(stop: int, size: int, *, alone: bool) -> int:
    """Tell how many rows the work up to this one is worth: of one collection earlier blocks have more to do."""
    left = 1 - min(stop, size) / max(1, size)
    return round(size * (1 - (left**2 if alone else left)))


def _scan(
    collections: Sequence[Collection], thumbnails: Sequence[Thumbnails | None], limits: PairLimits, tiling: Tiling
) -> Scan:
    if len(collections) == 1:
        return Scan(collections[0].vectors, limits, k=NEIGHBOURS, thumbnails=thumbnails[0], tiling=tiling)
    one, other = collections
    return Scan(
        one.vectors,
        limits,
        k=NEIGHBOURS,
        thumbnails=thumbnails[0],
        others=other.vectors,
        other_thumbnails=thumbnails[1],
        tiling=tiling,
    )


def _folder(collections: Sequence[Collection], thumbnails: Sequence[Thumbnails | None], limits: PairLimits) -> Path:
    digest = hashlib.sha256(repr((FORMAT, NEIGHBOURS, astuple(limits))).encode())
    for collection, pictures in zip(collections, thumbnails, strict=True):
        vectors = collection.vectors
        for array in (vectors.indptr, vectors.indices, vectors.values, np.zeros(0) if pictures is None else pictures):
            digest.update(np.ascontiguousarray(array).data)
        digest.update(f"{vectors.fingerprint} {vectors.dimensions}".encode())
    return cache_folder("curate") / digest.hexdigest()[:32]


def _write(path: Path, block: Block) -> None:
    """Put a block away; where that cannot be done it will be computed again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            fields = {name: value for name, value in vars(block).items() if name != "pairs"}
            np.savez(file, **fields, **{f"pairs_{name}": value for name, value in vars(block.pairs).items()})
    except (OSError, NonnegError):
        return


def _read(path: Path) -> Block | None:
    try:
        with np.load(path, allow_pickle=False) as archive:
            pairs = Pairs(*(archive[f"pairs_{name}"] for name in Pairs.__dataclass_fields__))
            start, size, k = (int(archive[name]) for name in ("start", "size", "k"))
            return Block(start, size, k, pairs, archive["rows"], archive["columns"], archive["cosines"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # not there, or damaged


def _check(pairs: int, limits: PairLimits) -> None:
    if pairs > MOST_PAIRS:
        raise DataInvalid(
            f"more than {MOST_PAIRS} pairs have a cosine of {limits.similar} or are copies",
            fix="give a larger --similar, or curate the folders one by one",
            field="similar",
            value=limits.similar,
            limit=MOST_PAIRS,
        )
