"""A study as its TOML file describes it: base settings, variants, seeds, measures, and the claims to decide."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nonneg_core.errors import ConfigInvalid

OURS = Path(__file__).parent / "plans"
Record = dict[str, Any]
PaperClaim = Literal[  # the paper's claims that the results page decides, in its order
    "features", "sparsity", "consistency", "correlation", "sepin", "selection", "distribution", "supervised", "nmf",
    "identifiability", "activations",
]  # fmt: skip


class PlanSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClaimCheck(PlanSection):
    """One comparison: a figure of a variant, alone or less another variant's, against a bound."""

    figure: str
    of: str
    than: str | None = None  # the other variant: paired by seed
    figure_than: str | None = None  # another figure of that variant; default: the same
    at_least: float | None = None
    at_most: float | None = None
    counts: bool = True  # false: shown, but not part of the verdict, because it holds by construction


class Claim(PlanSection):
    """What is to be decided, and what the paper says."""

    name: str
    says: str
    paper: str = ""
    of_paper: PaperClaim | None = None  # which of the paper's claims it is a part of
    beyond: bool = False  # what the paper does not claim: shown beside its claim, not part of the verdict
    why: str = ""  # what we think where it did not hold
    note: str = ""  # what a reader has to know beside the verdict
    checks: tuple[ClaimCheck, ...] = Field(min_length=1)


class Plot(PlanSection):
    """A picture: a figure's bars by variant, several figures' bars side by side, a series' lines, or growth."""

    figures: tuple[str | tuple[str, ...], ...]
    over: str | None = None  # a setting that variants of one kind, ncl-50 and ncl-150, differ in: lines over it
    paper: dict[str, float] = {}  # figures of the paper, drawn at the end
    title: str = ""
    label: str = ""


class StudyPlan(PlanSection):
    """The whole file."""

    title: str
    question: str
    setting: str  # one sentence for people: data, network, size
    task: str
    seeds: tuple[int, ...] = Field(min_length=1)
    decides: tuple[PaperClaim, ...] = ()  # the paper's claims whose recipe this study is the nearest to
    began_with: int | None = None  # so many of the seeds, the others added once results had been seen
    base: Record = {}
    variants: dict[str, Record] = Field(min_length=1)
    measure: Record = {}
    table: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    plot: Plot | None = None


def read_plan(name: str) -> tuple[str, StudyPlan]:
    """Return a study's name and plan: one of our plans, or a file."""
    path = Path(name) if name.endswith(".toml") else OURS / f"{name}.toml"
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigInvalid(
            f"study {name} does not exist", fix=f"choose of {', '.join(names())}, or give a .toml file", value=name
        ) from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read ({error})", fix="mend the file", value=str(path)) from error
    try:
        plan = StudyPlan.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = "not a setting" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise ConfigInvalid(f"{path}: {field}: {message}", fix="see research/studies.md", field=field) from error
    _check_claims(path, plan)
    return path.stem, plan


def names() -> list[str]:
    """Return the names of our plans."""
    return sorted(path.stem for path in OURS.glob("*.toml"))


def _check_claims(path: Path, plan: StudyPlan) -> None:
    for claim in plan.claims:
        for check in claim.checks:
            unknown = [name for name in (check.of, check.than) if name is not None and name not in plan.variants]
            if unknown:
                raise ConfigInvalid(
                    f"{path}: the claim {claim.name} compares {unknown[0]}, which is not a variant",
                    fix=f"name one of {', '.join(plan.variants)}",
                    field="claims",
                )
        if not any(check.counts for check in claim.checks):
            raise ConfigInvalid(
                f"{path}: the claim {claim.name} has no check that counts", fix="let one count", field="claims"
            )
        for check in claim.checks:
            if (check.at_least is None) == (check.at_most is None):
                raise ConfigInvalid(
                    f"{path}: the claim {claim.name} needs one bound", fix="give at_least or at_most", field="claims"
                )


def check_figures(name: str, plan: StudyPlan, known: frozenset[str]) -> None:
    """Refuse a figure that no result can have: its claim would stay undecided for ever."""
    used = [
        (f"the claim {c.name}", figure) for c in plan.claims for k in c.checks for figure in (k.figure, k.figure_than)
    ]
    used += [("the table", figure) for figure in plan.table]
    for panel in plan.plot.figures if plan.plot else ():
        used += [("the plot", figure) for figure in ([panel] if isinstance(panel, str) else panel)]
    for place, figure in used:
        if figure is not None and figure not in known:
            close = difflib.get_close_matches(figure, known, n=1)
            raise ConfigInvalid(
                f"{name}: {place} names {figure}, which no result can have",
                fix=f"did you mean {close[0]}?"
                if close
                else f"measure it, or name one of {', '.join(sorted(known)[:8])}, ...",
                field="figure",
                value=figure,
            )


def merged(base: Record, changes: Record) -> Record:
    """Return the base with a variant's changes, table by table."""
    record = dict(base)
    for key, value in changes.items():
        inner = record.get(key)
        record[key] = merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return record


def flat(record: Record, before: str = "") -> dict[str, Any]:
    """Return dotted names and values."""
    entries: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            entries |= flat(value, f"{before}{key}.")
        else:
            entries[f"{before}{key}"] = list(value) if isinstance(value, tuple) else value
    return entries


def differing(a: Record, b: Record, defaults: Record) -> set[str]:
    """Return the dotted names that two records do not agree on.

    A setting that one of them does not know, because it came later, stands there at its default; one that exists no
    longer does not count.
    """
    first, second, known = flat(a), flat(b), flat(defaults)
    shared = {name for name in first.keys() & second.keys() if first[name] != second[name]}
    alone = {n: v for n, v in (first | second).items() if (n in first) != (n in second)}
    return shared | {name for name, value in alone.items() if name in known and value != known[name]}
