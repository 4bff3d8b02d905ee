"""Retrieval over length, drawn: one line a selection, the share of zero vectors below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nonneg_client.evaluation.retrieval import LengthResult
from nonneg_core.atomic import atomic_write
from nonneg_core.errors import ConfigInvalid
from nonneg_core.figures import figure

FORMS = (".png", ".svg", ".pdf")


def check_form(path: Path) -> None:
    """Raise before the work if the picture could not be written after it."""
    if path.suffix.lower() not in FORMS:
        raise ConfigInvalid(f"{path} is not a picture", fix=f"call it {', '.join(FORMS)}")
    figure()


def plot(rows: Sequence[LengthResult], path: Path, *, metric: str, title: str = "") -> None:
    """Draw a metric and the share of zero vectors over the number of dimensions."""
    drawn = figure(figsize=(7, 5))
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for selection in dict.fromkeys(row.selection for row in rows):
        lines = sorted(
            (row.length.dimensions, row.report.means()[metric], row.zero_share)
            for row in rows
            if row.selection == selection and row.length.top_k is None
        )
        lengths, scores, zeros = zip(*lines, strict=True)
        above.plot(lengths, scores, marker="o", label=selection)
        below.plot(lengths, zeros, marker="o")
    above.set(title=title, ylabel=metric, ylim=(0, 1))
    above.legend()
    below.set(xscale="log", xlabel="dimensions", ylabel="zero vectors")
    ticks = sorted({row.length.dimensions for row in rows})
    below.set_xticks(ticks, labels=[str(tick) for tick in ticks], rotation=45)
    below.minorticks_off()
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
