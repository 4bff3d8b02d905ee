"""metrics.csv: one row a report, appended as the run goes; a resumed run drops the rows it is about to repeat."""

from __future__ import annotations

import csv
from pathlib import Path

from nonneg_training.files import storage_failed, write_whole

FILE_NAME = "metrics.csv"
COLUMNS = ("step", "epoch", "loss", "lr", "images_per_second")


class Metrics:
    """Appends rows to a run's metrics.csv."""

    def __init__(self, run: Path, *, resumed_at: int = 0) -> None:
        self.path = run / FILE_NAME
        kept = [row for row in read_metrics(run) if int(row["step"]) <= resumed_at] if resumed_at else []
        write_whole(self.path, lambda path: _write(path, kept))

    def add(self, row: dict[str, float]) -> None:
        """One report; what it does not say stays empty."""
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS).writerow(row)
        except OSError as error:
            raise (storage_failed(error, self.path) or error) from error


def read_metrics(run: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv; none if there is no file."""
    path = run / FILE_NAME
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["step"]]


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
