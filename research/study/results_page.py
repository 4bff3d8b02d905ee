"""Writes docs/results.md and research/results-by-study.md from research/results: claims, our numbers, verdicts.

python -m research.study.results_page            writes both pages, and docs/what-the-numbers-mean.md
python -m research.study.results_page --print    prints the first
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from research.study import Study, numbers_page
from research.study.claim_verdict import FAILED, HELD, OPEN, PART, Checked, Verdict, decide, short, together
from research.study.plan import read_plan
from research.study.study_report import PICTURE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "research" / "results"
PAGE, BY_STUDY = ROOT / "docs" / "results.md", ROOT / "research" / "results-by-study.md"
STUDIES = (  # in the order of the page by study; of those that decide a claim, the first with all its runs does
    "features", "features-growth", "features-100", "features-activations", "features-classes", "nce-features", "pixels",
    "cifar10", "quick", "longer", "finetune", "selection", "selection-mini-imagenet", "distribution",
    "theory", "parts", "sprites", "heads", "active", "towers", "questions",
)  # fmt: skip
GROWTH = "features-growth"  # whose plot is on the page
CLAIMS = {  # the paper's, in the page's order
    "features": "NCL's linear probe and fine-tuning are not below CL's (by more than a point)",
    "sparsity": "At least nine tenths of NCL's entries are zero",
    "consistency": "NCL's dimensions belong to one class more than CL's",
    "correlation": "NCL's dimensions are less correlated than CL's",
    "sepin": "NCL's dimensions are more disentangled: SEPIN@k above CL's",
    "selection": "A quarter of the dimensions by expected activation with ReLU costs nothing; a random quarter does",
    "distribution": "NCL's features are not below CL's out of distribution (by more than a point)",
    "supervised": "NCE is above CE, and faster early on",
    "nmf": "Spectral NCL finds the NMF of the co-occurrence",
    "identifiability": "NCL's dimensions are the latent classes up to a permutation; CL's are not",
    "activations": "ReLU is the best of the activations",
}
MARK = {HELD: "**held**", PART: "**held in part**", FAILED: "**did not hold here**", OPEN: "not decided"}
HEAD = """# Results: the method's claims, measured here

[Non-negative Contrastive Learning](https://arxiv.org/abs/2403.12459) (NCL) makes eleven claims. {count} Our runs are
small, so that directions can be compared and sizes cannot. Every check, table and plot stands in
[results by study](../research/results-by-study.md); how to run them again in [studies](../research/studies.md); what
each published number is, in [what the numbers of NCL mean](what-the-numbers-mean.md).

| claim | paper | ours | verdict |
|---|---|---|---|
"""
FOOT = """
## How to read it

- **One study decides a claim: the one nearest to the paper's recipe.** Each study's file says which claims it decides.
  For figures of the projector's output that is `features`: a projector trained until its figures level, on a frozen
  backbone that was trained on ImageNet with labels. It tests the geometry of the output, not the learning of features.
  For the backbone's own figures it is `pixels`, from scratch. A study decides when all of its runs are there:
  until then an earlier and shorter one stands in its place.
- A claim is exactly the paper's. *Beyond the paper* is what we ask besides; it does not count.
- A claim is *held* when the 95 % interval over seeds (in brackets; paired where two are compared) of each of its checks
  lies within the bound; *held in part* when some lie within and others outside; *did not hold here* when at least one
  lies outside and none within; *not decided* otherwise. The first check of each outcome is shown.
- The paper's numbers are quoted; "independent re-runs" are not the authors'. SEPIN@k is in nats, by the InfoNCE bound.
- The numbers come from sealed files in [results](../research/results) that `python -m research.study run NAME` wrote;
  `python -m research.study.results_page` writes the page, and a test fails where the two disagree. A file's `commit`
  names the state of the clone that made it; the history was joined into fewer commits since.

## Rules that were changed after earlier results

The studies of frozen features and `pixels` were written after trials had shown what to expect, with other seeds. Each
rule below was changed when results by the older one were known; earlier studies are still measured by the older one.

| rule | before | now |
|---|---|---|
| which study decides | the one with the most multiplications | the one nearest to the paper's recipe |
| batch norm | NCL with batch norm had to hold, too | beside: the authors use none |
| consistency | weighted, above a rotated floor; purity above CL's | the paper's own, unweighted; those beside |
| rotated floor | raw vectors, all dimensions, one threshold | unit vectors, live ones, as often active as each axis |
| purity | of raw vectors | of unit vectors |
| SEPIN | 512 pairs; @1, @10, @100 | up to 4,096 pairs in blocks of 256; @all as well |
| correlation | the mean | the mean and the authors' median |
| NCE | "nothing but the sign differs" counted | that stands beside; "twice as fast" counts |
| activations | ReLU's purity above all others; its probe above three | purity beside; its probe above all five |
"""
ALL = """# Results by study

Every claim of every study, with its checks. Which study decides a claim of the paper, and how to read the numbers:
[results](../docs/results.md). `python -m research.study.results_page` writes the page from [results](results), and a
test fails where the two disagree. Floors and purity of the studies from `cifar10` on are of an earlier definition
([rules that were changed](../docs/results.md#rules-that-were-changed-after-earlier-results)).

| claim | paper | ours | study | verdict |
|---|---|---|---|---|
"""


def page(results: Path = RESULTS) -> str:
    """Return the page of the eleven claims, in Markdown."""
    studies = _studies(results)
    rows, statuses = [], []
    for key in CLAIMS:
        study = next(s for s in studies if key in s.plan.decides and _complete(s))
        rows.append(_row(key, study, [s for s in studies if s is not study]))
        statuses.append(_status(_claims(study, key)))
    of = {word: statuses.count(word) for word in MARK}
    count = (
        f"**{len(CLAIMS) - of[OPEN]} of the eleven are decided here: {of[HELD]} held, {of[PART]} held in part, "
        f"{of[FAILED]} did not hold. {of[OPEN]} are not decided.**"
    )
    plot = results / GROWTH / PICTURE
    growth = f"\n![How the figures grow with training](../research/results/{GROWTH}/{PICTURE})\n"
    return HEAD.format(count=count) + "\n".join(rows) + "\n" + (growth if plot.is_file() else "") + FOOT


def by_study(results: Path = RESULTS) -> str:
    """Return the page with every claim and every check, study by study."""
    studies = _studies(results)
    lines = [ALL.rstrip("\n")]
    for study in studies:
        for v in study.verdicts():
            cells = [v.claim.says, v.claim.paper or "-", _numbers(_lead(v)), f"[{study.name}](#{study.name})"]
            lines.append(f"| {' | '.join([*cells, MARK[v.status] + _before(study, v)])} |")
    for study in studies:
        lines += ["", *_section(study, results)]
    return "\n".join(lines).rstrip() + "\n"


def _complete(study: Study) -> bool:
    return len(study.results()) == len(study.plan.seeds) * len(study.plan.variants)


def _studies(results: Path) -> list[Study]:
    return [Study(name, results=results) for name in STUDIES if any((results / name).glob("*.json"))]


def _claims(study: Study, key: str, *, beyond: bool = False) -> list[Verdict]:
    """Return what a study says of one of the paper's claims, or of what we ask beyond it."""
    return [v for v in study.verdicts() if v.claim.of_paper == key and v.claim.beyond == beyond]


def _status(verdicts: Sequence[Verdict]) -> str:
    return together([checked for v in verdicts for checked in v.checks])


def _row(key: str, study: Study, others: Sequence[Study]) -> str:
    """Return a claim's line."""
    verdicts = _claims(study, key)
    papers = list(dict.fromkeys(v.claim.paper for v in verdicts if v.claim.paper))
    label = "{}: ".format if len(verdicts) > 1 else lambda _: ""
    ours = [label(v.claim.name) + _numbers(checked) for v in verdicts for checked in _shown(v)]
    words = [f"{MARK[_status(verdicts)]} ({_link(study)})"]
    planned = next(name for name in STUDIES if key in read_plan(name)[1].decides)
    if planned != study.name:
        words.append(f"An earlier study: `{planned}` has not run to its end")
    if len({v.status for v in verdicts}) > 1:
        words.append("; ".join(f"{v.claim.name} {v.status}" for v in verdicts))
    words += [f"{v.claim.note[0].upper()}{v.claim.note[1:]}" for v in verdicts if v.claim.note]
    beside = [(s, v) for s in (study, *others) for v in _claims(s, key, beyond=True)]
    if beside:
        words.append("Beyond the paper: " + "; ".join(f"{v.claim.name} {v.status} ({_link(s)})" for s, v in beside))
    elsewhere = [f"{_link(s)} {_status(found)}" for s in others if (found := _claims(s, key))]
    if elsewhere:
        words.append("Elsewhere: " + "; ".join(elsewhere))
    return f"| {' | '.join([CLAIMS[key], '; '.join(papers), '<br>'.join(ours), '<br>'.join(words)])} |"


def _link(study: Study) -> str:
    return f"[{study.name}](../research/results-by-study.md#{study.name})"


def _shown(verdict: Verdict) -> list[Checked]:
    """Return the first check of each outcome, of those that count."""
    counted = [checked for checked in verdict.checks if checked.check.counts]
    return list({checked.status: checked for checked in reversed(counted)}.values())[::-1]


def _lead(verdict: Verdict) -> Checked:
    return next(checked for checked in verdict.checks if checked.check.counts)


def _named(checked: Checked) -> str:
    check = checked.check
    if check.than is None:
        return f"{check.figure} of {check.of}"
    other = check.figure_than if check.than == check.of else check.than
    return f"{check.figure} of {check.of} against {other}"


def _numbers(checked: Checked) -> str:
    if checked.estimate is None:
        return "-"
    if checked.of is None or checked.than is None:
        return str(checked.estimate)
    return f"{short(checked.of.mean)} against {short(checked.than.mean)}, difference {checked.estimate}"


def _before(study: Study, verdict: Verdict) -> str:
    """Say what the first seeds said, where others were added and the verdict changed."""
    first = study.plan.began_with
    if first is None:
        return ""
    early = decide(verdict.claim, [r for r in study.results() if r.seed in study.plan.seeds[:first]])
    if early.status == verdict.status:
        return ""
    changed = next(e for e, now in zip(early.checks, verdict.checks, strict=True) if e.status != now.status)
    return f"; with the first {first} seeds alone: {early.status} ({_named(changed)}: {changed.estimate})"


def _section(study: Study, results: Path) -> list[str]:
    plan = study.plan
    found = study.results()
    lines = [f"## {study.name}", "", f"{plan.title}. {plan.question}", ""]
    added = f" (began with {plan.began_with})" if plan.began_with else ""
    lines += [
        f"{plan.setting[0].upper()}{plan.setting[1:]}; {len({r.seed for r in found})} seeds{added}, "
        f"{len(found)} of {len(plan.seeds) * len(plan.variants)} runs ([table](results/{study.name}/table.md)).",
        "",
    ]
    for verdict in study.verdicts():
        lines += _claim(study, verdict)
    for picture in sorted((results / study.name).glob("*.png")):
        lines += ["", f"![{plan.title}](results/{study.name}/{picture.name})"]
    return lines


def _claim(study: Study, verdict: Verdict) -> list[str]:
    note = f" ({verdict.claim.note})" if verdict.claim.note else ""
    lines = [f"- {verdict.claim.says}: {MARK[verdict.status]}{_before(study, verdict)}.{note}"]
    lines += [f"  - {checked}" for checked in verdict.checks]
    if verdict.claim.why and verdict.status in (FAILED, PART, OPEN):
        lines.append(f"  - Why, we think: {verdict.claim.why}")
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(page(), end="")
    else:
        PAGE.write_text(page(), encoding="utf-8")
        BY_STUDY.write_text(by_study(), encoding="utf-8")
        numbers_page.PAGE.write_text(numbers_page.numbers_page(RESULTS), encoding="utf-8")
