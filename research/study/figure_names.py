"""Which figures a result of an encoder can have: what a claim, a table or a plot may name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from nonneg_training.data.named_data_sets import FACTORS
from nonneg_training.measure.probing import ProbeResult
from nonneg_vectors.evaluation.structure_report import CodeFigures
from research.study.robustness import CORRUPTIONS, SIDES

if TYPE_CHECKING:
    from research.study.encoder_task import Measure

BY_EPOCH = ("knn", "test_accuracy", "nnz", "live")  # columns of metrics.csv
STRUCTURE = (
    *(field.name for field in fields(CodeFigures) if not field.name.startswith("sepin")),
    *(f"sepin.{k}" for k in ("1", "10", "100", "all")),
)
ROW = tuple(field.name for field in fields(ProbeResult) if field.name not in ("selection", "dimensions"))


def encoder_figures(what: Measure) -> frozenset[str]:
    """Return the names of all that `what` can measure of a run."""
    names = {"train.loss", "train.images_per_second"}
    names |= _under((f"train.{column}" for column in BY_EPOCH), ("", ".at_quarter", ".at_eighth", ".by_epoch"))
    if what.structure:
        floors = ("structure", "floor.shuffled", "floor.rotated", "floor.untrained")
        names |= _under(floors, (f".{figure}" for figure in STRUCTURE))
    names |= {f"cut.{share:g}.consistency" for share in what.cuts}
    names |= {"matched.dimensions"} if what.matched else set()
    rows = _rows(what)
    names |= rows | ({f"transfer.{name}" for name in rows} if what.transfer else set())
    if what.corruptions:
        names |= _under(
            (f"corrupted.{name}.{side}" for name in CORRUPTIONS for side in SIDES), (".probe", ".by_strength")
        )
        names |= {f"corrupted.common.{side}.probe" for side in SIDES}
    names |= _under((f"shots.{count}" for count in what.shots), (f".{side}.probe" for side in SIDES))
    names |= _under((f"noise.{share:g}" for share in what.noise), (f".{side}.probe" for side in SIDES))
    if what.factors:
        names |= {"factors.gap", *(f"factors.gap.{factor}" for factor in FACTORS)}
    names |= _under((f"finetune.{name}" for name in what.finetune), ("", ".by_epoch"))
    return frozenset(names)


def _rows(what: Measure) -> set[str]:
    """Return the figures of probes and neighbours."""
    codes = ["embedding" if name == "trained" else name for name in what.codes]
    chosen = [f"{code}.{name}.{k}" for code in codes for name in what.selections for k in what.lengths]
    tops = [f"top.{k}" for k in what.keep]
    return _under(["backbone", *codes, *chosen, *tops], (f".{figure}" for figure in ROW)) | _under(tops, [".nnz"])


def _under(before: Iterable[str], after: Iterable[str]) -> set[str]:
    endings = list(after)
    return {f"{first}{last}" for first in before for last in endings}
