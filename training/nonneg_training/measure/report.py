"""What was measured of an encoder: the table of structure with its floors, and the rows of probes and neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nonneg_core.evaluation.certificate import CodeFigures, StructureReport
from nonneg_core.evaluation.probe import halves
from nonneg_training.measure.outputs import Outputs
from nonneg_training.measure.probing import ProbeResult, rows

FIGURES = (  # what is printed, in this order
    "live", "zero_share", "nnz", "sparsity", "correlation", "consistency", "consistency_unweighted", "purity",
    "monosemanticity",
)  # fmt: skip
ON_LABELS = ("consistency", "consistency_unweighted", "purity", "monosemanticity")  # all that shuffled labels change


@dataclass(frozen=True)
class Report:
    """Structure, and what a probe and neighbours make of it."""

    structure: StructureReport
    embedding: list[ProbeResult]
    features: list[ProbeResult]  # of the backbone; empty where it cannot be seen by itself

    def record(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "structure": self.structure.record(),
            "embedding": [row.record() for row in self.embedding],
            "backbone": [row.record() for row in self.features],
        }


def measure(
    asked: Outputs,
    teach: Outputs | None = None,
    *,
    lengths: Sequence[int] = (),
    selections: Sequence[str] = ("prefix",),
    seed: int = 0,
) -> Report:
    """Measure structure of what is asked; probe and neighbours from `teach` to it, or from one half to the other."""
    if teach is None:
        first, other = halves(asked.labels.tolist(), seed=seed)
        pair, labels = (asked.z[first], asked.z[other]), (asked.labels[first], asked.labels[other])
        features = None if asked.features is None else (asked.features[first], asked.features[other])
    else:
        pair, labels = (teach.z, asked.z), (teach.labels, asked.labels)
        both = teach.features is not None and asked.features is not None
        features = (np.asarray(teach.features), np.asarray(asked.features)) if both else None
    return Report(
        asked.structure(seed=seed),
        rows(pair, labels, lengths=lengths, selections=selections, seed=seed),
        [] if features is None else rows(features, labels),
    )


def structure_table(found: StructureReport) -> list[list[Any]]:
    """Return a line a figure: measured, and each floor; `-` where a floor says nothing."""
    floors: dict[str, CodeFigures | None] = {
        "shuffled": found.shuffled,
        "rotated": found.rotated,
        "untrained": found.untrained,
    }
    lines = []
    for name in FIGURES:
        values = [
            None if floor is None or (kind == "shuffled" and name not in ON_LABELS) else getattr(floor, name)
            for kind, floor in floors.items()
        ]
        lines.append([name, getattr(found.measured, name), *values])
    for k in found.measured.sepin or {}:
        values = [_sepin(figures, k) for figures in (found.measured, None, found.rotated, found.untrained)]
        lines.append([f"SEPIN@{k}", *values])
    return [[_short(cell) for cell in line] for line in lines]


def _sepin(figures: CodeFigures | None, k: str) -> str | None:
    if figures is None or figures.sepin is None or figures.sepin_intervals is None:
        return None
    low, high = figures.sepin_intervals[k]
    return f"{figures.sepin[k]:.4g} [{low:.2g} {high:.2g}]"


def row_cells(kind: str, row: ProbeResult) -> list[Any]:
    """Return a row of the second table."""
    return [kind, *(_short(value) for value in asdict(row).values())]


def _short(value: Any) -> Any:
    """Return numbers a table can show: four digits, whatever their size."""
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else value
