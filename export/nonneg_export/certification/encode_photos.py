"""Photos and pictures through two encoders: the one that is certified and the one that judges."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from nonneg_core.cores import available_cores
from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_core.evaluation.photo_pairs import PastedPairs
from nonneg_core.heads.spread import Rows
from nonneg_core.lookahead import bounded_map
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import View
from nonneg_export.activations import Tick
from nonneg_export.adaptation.features import read_file
from nonneg_export.certification.edited_pictures import KINDS, edited
from nonneg_export.certification.encoders import Certified
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.inference.open_session import open_session
from nonneg_runtime.preprocess import Preprocessor

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Read:
    """The photos that could be read, and what both encoders make of them."""

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    rows: Rows
    judged: Rows
    broken: tuple[tuple[Path, str], ...]


def read_photos(certified: Certified, view: View, judge: Bundle, photos: Photos, tick: Tick | None) -> Read:
    """Show every photo to both encoders; a broken one is left out and named."""
    viewer, judges = Preprocessor(view), Preprocessor(judge.manifest.view)
    session = open_session(judge.encoder, callers=available_cores(), precision=judge.manifest.precision)

    def see(path: Path) -> tuple[str, Rows, Rows] | str:
        try:
            data = read_file(path)
            row = certified.rows(viewer.pixels(data)[None])[0]
            return hashlib.sha256(data).hexdigest(), row, session.run(judges.pixels(data)[None])[0]
        except (NonnegError, OSError) as error:
            return " ".join(str(error).split()) or type(error).__name__

    found = list(zip(photos.paths, _everyone(see, photos.paths, len(photos), tick), strict=True))
    seen = [(path, outcome) for path, outcome in found if not isinstance(outcome, str)]
    broken = tuple((path, outcome) for path, outcome in found if isinstance(outcome, str))
    if not seen:
        why = f" ({broken[0][0].name}: {broken[0][1]})" if broken else ""
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read{why}",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return Read(
        tuple(path for path, _ in seen),
        tuple(outcome[0] for _, outcome in seen),
        np.stack([outcome[1] for _, outcome in seen]),
        np.stack([outcome[2] for _, outcome in seen]),
        broken,
    )


def read_pictures(
    certified: Certified, view: View, paths: tuple[Path, ...], pairs: PastedPairs, tick: Tick | None
) -> dict[str, Rows]:
    """Make the pictures of every pair and show them to the encoder, by kind."""
    if not pairs.possible:
        return {}
    viewer = Preprocessor(view)

    def see(pair: int) -> Rows:
        donor, host = (
            decode(paths[numbers[pair]].read_bytes(), background=view.background, at_least=2 * view.size)
            for numbers in (pairs.donor, pairs.host)
        )
        made = edited(donor, host, view.size, corner=pair)
        return np.concatenate([certified.rows(viewer.pixels(made[kind])[None]) for kind in KINDS])

    rows = np.stack(list(_everyone(see, range(len(pairs.donor)), len(pairs.donor), tick)))  # (pairs, kinds, width)
    return {kind: rows[:, i] for i, kind in enumerate(KINDS)}


def _everyone(work: Callable[[Item], Result], items: Iterable[Item], count: int, tick: Tick | None) -> Iterable[Result]:
    def begin(item: Item) -> Future[Result]:
        return pool.submit(work, item)

    with ThreadPoolExecutor(available_cores()) as pool:
        jobs = bounded_map(begin, items, ahead=8 * available_cores())
        for done, (_, job) in enumerate(jobs, start=1):
            yield job.result()
            if tick:
                tick(done, count)
