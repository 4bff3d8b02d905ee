"""metrics.csv: one row a report, appended as the run goes; a resumed run drops the rows it is about to repeat."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from nonneg_core.atomic import atomic_write, storage_error

FILE_NAME = "metrics.csv"
COLUMNS = ("step", "epoch", "loss", "lr", "images_per_second", "knn", "live", "nnz", "zero_share", "test_accuracy")


class MetricsFile:
    """Appends rows to a run's metrics.csv."""

    def __init__(self, run: Path, parts: Sequence[str] = (), *, resumed_at: int = 0) -> None:
        self.path = run / FILE_NAME
        self.columns = (*COLUMNS, *parts)
        kept = [row for row in read_metrics(run) if int(row["step"]) <= resumed_at] if resumed_at else []
        with atomic_write(self.path) as path:
            self._begin(path, kept)

    def add(self, row: dict[str, float | None]) -> None:
        """Add one report; what it does not say stays empty."""
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.columns).writerow(row)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _begin(self, path: Path, rows: list[dict[str, str]]) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def read_metrics(run: Path) -> list[dict[str, str]]:
    """Return the rows of a run's metrics.csv; none without the file. A row cut short by a kill does not count."""
    path = run / FILE_NAME
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["step"] and None not in row.values()]
