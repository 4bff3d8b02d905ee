"""Writes docs/results.md from the results of studies that lie in results/: the claims, our numbers, the verdicts.

python benchmarks/results.py            writes the page
python benchmarks/results.py --print    prints it
"""

from __future__ import annotations

import sys
from pathlib import Path

from nonneg_training.study import Study
from nonneg_training.study.verdict import FAILED, HELD, OPEN, PART, Verdict, short

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
STUDIES = (  # in the page's order
    "cifar10", "quick", "longer", "finetune", "selection", "distribution", "supervised", "activations", "theory",
    "parts", "sprites", "heads", "towers", "questions",
)  # fmt: skip
MARK = {HELD: "**held**", PART: "held in part", FAILED: "**did not hold here**", OPEN: "not decided"}
HEAD = """# Results: the method's claims, measured here

Every number on this page comes from a file in [results](../results) that `nonneg study run NAME` wrote;
`python benchmarks/results.py` writes the page, and a test fails where the two disagree. The paper is
[Non-negative Contrastive Learning](https://arxiv.org/abs/2403.12459). Its numbers are quoted; ours come from far
smaller runs (each study says how small), so that directions can be compared and sizes cannot.

A claim is *held* when the 95 % interval over seeds (in brackets; paired where two are compared) lies within its bound,
*did not hold here* when it lies outside, and *not decided* otherwise. What the figures are:
[training](training.md#what-an-encoder-is-worth); how studies work: [studies](studies.md). SEPIN@k is in nats,
by the InfoNCE bound (temperature 0.2) on up to 512 pairs of views: dimensions are chosen on one half of the pairs and
measured on the other.
"""


def page(results: Path = ROOT / "results") -> str:
    """Return the whole page, in Markdown."""
    studies = [Study(name, results=results) for name in STUDIES if (results / name).is_dir()]
    lines = [HEAD]
    lines += ["| claim | paper | ours | study | verdict |", "|---|---|---|---|---|"]
    for study in studies:
        for v in study.verdicts():
            cells = [v.claim.says, v.claim.paper or "-", _ours(v), f"[{study.name}](#{study.name})", MARK[v.status]]
            lines.append(f"| {' | '.join(cells)} |")
    for study in studies:
        lines += ["", *_section(study, results)]
    return "\n".join(lines).rstrip() + "\n"


def _ours(verdict: Verdict) -> str:
    """Return the first check's numbers; the others stand in the study's section."""
    first = verdict.checks[0]
    if first.estimate is None:
        return "-"
    if first.of is None or first.than is None:
        return str(first.estimate)
    return f"{short(first.of.mean)} against {short(first.than.mean)}, difference {first.estimate}"


def _section(study: Study, results: Path) -> list[str]:
    plan = study.plan
    found = study.results()
    lines = [f"## {study.name}", "", f"{plan.title}. {plan.question}", ""]
    lines += [
        f"{plan.setting[0].upper()}{plan.setting[1:]}; {len({r.seed for r in found})} seeds, "
        f"{len(found)} of {len(plan.seeds) * len(plan.variants)} runs ([table](../results/{study.name}/table.md)).",
        "",
    ]
    for verdict in study.verdicts():
        lines += _claim(verdict)
    for picture in sorted((results / study.name).glob("*.png")):
        lines += ["", f"![{plan.title}](../results/{study.name}/{picture.name})"]
    return lines


def _claim(verdict: Verdict) -> list[str]:
    lines = [f"- {verdict.claim.says}: {MARK[verdict.status]}."]
    lines += [f"  - {checked}" for checked in verdict.checks]
    if verdict.claim.why and verdict.status in (FAILED, PART, OPEN):
        lines.append(f"  - Why, we think: {verdict.claim.why}")
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(page(), end="")
    else:
        PAGE.write_text(page(), encoding="utf-8")
