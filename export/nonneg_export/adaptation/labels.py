"""Labels of photos: the folders they lie in, or a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_export.adaptation.features import Features

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class Labels:
    """The class of every readable photo as a number; UNLABELLED where it has none."""

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def useful(self) -> bool:
        """Whether there are two classes, and one of them has two photos."""
        counts = np.bincount(self.codes[self.codes >= 0])
        return bool(len(counts) > 1 and counts.max(initial=0) > 1)


def labels_of(features: Features, table: Path | None) -> Labels:
    """From a CSV file with the columns path and label if there is one, else from the folders."""
    if table is None:
        texts = [features.photos.label(features.path(photo)) for photo in range(len(features))]
    else:
        known = read_table(table)
        texts = [known.get(_absolute(features.path(photo)), "") for photo in range(len(features))]
        _check_found(texts, known, features, table)
    names = tuple(sorted(set(texts) - {""}))
    number: Mapping[str, int] = {name: code for code, name in enumerate(names)} | {"": UNLABELLED}
    return Labels(np.array([number[text] for text in texts], dtype=np.int64), names)


def read_table(table: Path) -> dict[Path, str]:
    """The label of each path of a CSV file; paths are relative to it."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataInvalid(f"{table} cannot be read ({error})", fix="give a CSV file with a header, in UTF-8") from error
    for name in ("path", "label"):
        if not rows or rows[0].get(name) is None:
            raise DataInvalid(
                f"{table} has no column {name}",
                fix="begin it with the line path,label",
                field="labels",
                value=str(table),
            )
    return {_absolute(table.parent / row["path"]): row["label"] or "" for row in rows if row["path"]}


def _absolute(path: Path) -> Path:
    return Path(path).expanduser().resolve()


def _check_found(texts: list[str], known: dict[Path, str], features: Features, table: Path) -> None:
    if not any(texts):
        example = next(iter(known), None)
        raise DataInvalid(
            f"{table} names none of the {len(features)} photos in {features.photos.folder} (its first is {example})",
            fix="write paths relative to the CSV file",
            field="labels",
            value=str(table),
        )
