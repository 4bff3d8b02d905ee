"""Labels of photos: the folders they lie in, or a CSV file."""

import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.files.csv_table import stream_table
from nonneg_export.adapt.photo_features import Features
from nonneg_export.calibrate.photo_records import RecordKeys, last_of

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class Labels:
    """The class of every readable photo as a number; UNLABELLED where it has none."""

    codes: Numbers
    names: tuple[str, ...]
    unmatched: str = ""  # what to say of lines of a table that name no photo

    @property
    def useful(self) -> bool:
        """Whether there are two classes, and one of them has two photos."""
        counts = np.bincount(self.codes[self.codes >= 0])
        return bool(len(counts) > 1 and counts.max(initial=0) > 1)


def labels_of(features: Features, table: Path | None) -> Labels:
    """Return the photos' labels: from a CSV file with the columns path and label if there is one, else by folder."""
    paths = (features.path(photo) for photo in range(len(features)))
    if table is None:
        return coded(features.photos.label(path) for path in paths)
    keys, labels = read_table(table, features.photos.folder)
    photos = np.fromiter(map(_key, paths), dtype=np.uint64, count=len(features))
    rows = last_of(keys, photos)
    codes = np.append(labels.codes, UNLABELLED)[rows]
    if (rows < 0).all():
        example = next(iter(_rows(table)), ("nothing", ""))[0]
        raise DataInvalid(
            f"{table} names none of the {len(features)} photos in {features.photos.folder} (its first is {example})",
            fix="write paths relative to the photos' folder or to the CSV file",
            field="labels",
            value=str(table),
        )
    return Labels(codes, labels.names, _unmatched(table, keys, photos))


def coded(texts: Iterable[str]) -> Labels:
    """Return labels as numbers in the order of their names; an empty one is none."""
    numbers: dict[str, int] = {}
    occurrences = np.array(array("q", (numbers.setdefault(text, len(numbers)) for text in texts)), dtype=np.int64)
    names = sorted(numbers.keys() - {""})
    place = {name: code for code, name in enumerate(names)} | {"": UNLABELLED}
    return Labels(np.array([place[text] for text in numbers], dtype=np.int64)[occurrences], tuple(names))


def read_table(table: Path, photos: Path) -> tuple[RecordKeys, Labels]:
    """Read a key of each path of a CSV file, relative to it or to the folder of photos, and the labels."""
    keys = array("Q")

    def texts() -> Iterator[str]:
        for path, label in _rows(table):
            beside = table.parent / path
            keys.append(_key(beside if beside.exists() else photos / path))
            yield label

    labels = coded(texts())
    return np.array(keys, dtype=np.uint64), labels


def _rows(table: Path) -> Iterator[tuple[str, str]]:
    """Yield the paths and labels of a CSV file."""
    for row in stream_table(table, ("path", "label")):
        if row["path"]:
            yield row["path"], row["label"]


def _unmatched(table: Path, keys: RecordKeys, photos: RecordKeys) -> str:
    """Return what to say where lines name files that are not among the photos; nothing if all are."""
    lost = np.flatnonzero(~np.isin(keys, photos))
    if not len(lost):
        return ""
    first = next(islice(_rows(table), int(lost[0]), None), ("", ""))[0]
    return f"{table}: {len(lost)} of {len(keys)} lines name none of the photos (the first is {first})"


def _key(path: Path) -> int:
    """Name a file by any path that leads to its folder."""
    folder, name = os.path.split(path.expanduser())
    return int.from_bytes(blake2b(os.fsencode(f"{_real(folder)}/{name}"), digest_size=8).digest(), "little")


@lru_cache(1024)
def _real(folder: str) -> str:
    return os.path.realpath(folder)
