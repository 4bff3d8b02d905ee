"""Writes docs/results.md and research/results-by-study.md from research/results: claims, our numbers, verdicts.

python -m research.study.results_page            writes both pages
python -m research.study.results_page --print    prints the first
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from nonneg_training.loop.build_encoder import build_encoder
from nonneg_training.setup.run_settings import validate
from research.study import Study
from research.study.claim_verdict import FAILED, HELD, OPEN, PART, Checked, Verdict, decide, short, together

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "research" / "results"
PAGE, BY_STUDY = ROOT / "docs" / "results.md", ROOT / "research" / "results-by-study.md"
STUDIES = (  # in the order of the page by study
    "cifar10", "quick", "longer", "finetune", "selection", "selection-mini-imagenet", "distribution", "supervised",
    "activations", "theory", "parts", "sprites", "heads", "active", "towers", "questions",
)  # fmt: skip
CLAIMS = {  # the paper's, in the page's order
    "features": "NCL's linear probe and fine-tuning are not below CL's (by more than a point)",
    "sparsity": "At least nine tenths of NCL's entries are zero",
    "consistency": "NCL's dimensions belong to one class more than CL's, and more than the same codes rotated",
    "correlation": "NCL's dimensions are less correlated than CL's",
    "sepin": "NCL's dimensions are more disentangled: SEPIN@k above CL's",
    "selection": "A quarter of the dimensions by expected activation with ReLU costs nothing; a random quarter does",
    "distribution": "NCL's features are not below CL's out of distribution (by more than a point)",
    "supervised": "NCE is above CE, and faster early on",
    "nmf": "Spectral NCL finds the NMF of the co-occurrence",
    "identifiability": "NCL's dimensions are the latent classes up to a permutation; CL's are not",
    "activations": "ReLU is the best of the activations",
}
SHAPE = ("method", "model", "views")  # the settings that say what an encoder is like
MARK = {HELD: "**held**", PART: "**held in part**", FAILED: "**did not hold here**", OPEN: "not decided"}
HEAD = """# Results: the method's claims, measured here

[Non-negative Contrastive Learning](https://arxiv.org/abs/2403.12459) (NCL) makes eleven claims. {count} Our runs are
small, so that directions can be compared and sizes cannot. Every check, table and plot, and what else was measured,
stands in [results by study](../research/results-by-study.md); how to run them again in
[studies](../research/studies.md).

| claim | paper | ours | setting | verdict |
|---|---|---|---|---|
"""
FOOT = """
## How to read it

- **One study decides a claim: the largest that measures it**, by the multiplications of its encoder times the images
  that a run sees in training; of equal ones that with more seeds. What smaller studies say stands behind it, and does
  not count.
- A claim says that all of its checks hold. It is *held* when the 95 % interval over seeds (in brackets; paired where
  two are compared) of each check lies within its bound; *held in part* when some lie within and others outside; *did
  not hold here* when at least one lies outside and none within; *not decided* when none lies outside and at least one
  lies on both sides. Of a claim with several checks the first one of each outcome is shown.
- Seeds were added to some studies after the first had left claims open. An interval that is looked at twice is wrong
  more often than one time in twenty. Where the first seeds had given another verdict, the row says so.
- The paper's numbers are quoted; "independent re-runs" are not the authors'.
- What the figures are: [training](training.md#what-an-encoder-is-worth). SEPIN@k is in nats, by the InfoNCE bound
  (temperature 0.2) on up to 512 pairs of views: dimensions are chosen on one half of the pairs and measured on the
  other.
- The numbers come from files in [results](../research/results) that `python -m research.study run NAME` wrote.
  `python -m research.study.results_page` writes the page, and a test fails where the two disagree. A file's `commit`
  names the state of the clone that made it; the history was joined into fewer commits since, so that most of these are
  not in it. Settings, measures and figures of a file are complete without it, and its digest shows whether it was
  edited.

![Test images of CIFAR-10 with the largest entries in eight dimensions of CL and eight of NCL](dimensions.png)
"""
ALL = """# Results by study

Every claim of every study, with its checks. Which study decides a claim of the paper, and how to read the numbers:
[results](../docs/results.md). `python -m research.study.results_page` writes the page from [results](results), and a
test fails where the two disagree.

| claim | paper | ours | study | verdict |
|---|---|---|---|---|
"""


def page(results: Path = RESULTS) -> str:
    """Return the page of the eleven claims, in Markdown."""
    studies = _studies(results)
    found = {key: _deciding(key, studies) for key in CLAIMS}
    rows = [_row(key, *found[key]) for key in CLAIMS]
    of = {word: sum(_status(verdicts) == word for _, verdicts, _ in found.values()) for word in MARK}
    count = (
        f"**{len(CLAIMS) - of[OPEN]} of the eleven are decided here: {of[HELD]} held, {of[PART]} held in part, "
        f"{of[FAILED]} did not hold. {of[OPEN]} are not decided**: none of their checks lies outside its bound, and at "
        "least one lies on both sides."
    )
    return HEAD.format(count=count) + "\n".join(rows) + "\n" + FOOT


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


def _studies(results: Path) -> list[Study]:
    return [Study(name, results=results) for name in STUDIES if (results / name).is_dir()]


Decision = tuple[Study, list[Verdict], list[tuple[Study, str]]]


def _deciding(key: str, studies: Sequence[Study]) -> Decision:
    """Return the largest study that measures a claim with its verdicts there, and what the others say."""
    measuring = {s: [v for v in s.verdicts() if v.claim.of_paper == key] for s in studies}
    measuring = {s: verdicts for s, verdicts in measuring.items() if verdicts}
    ordered = list(measuring)
    if len(ordered) > 1:
        ordered.sort(key=lambda s: (size(s), len(s.plan.seeds)), reverse=True)
    others = [(s, _status(measuring[s])) for s in ordered[1:]]
    return ordered[0], measuring[ordered[0]], others


def size(study: Study) -> float:
    """Return the multiplications of the study's largest run: those of its encoder for an image, times images seen."""
    settings = [r.settings for r in {r.variant: r for r in study.results()}.values()]
    return max(
        float(s["data"]["limit"] * s["loop"]["epochs"] * _multiplications(json.dumps({n: s[n] for n in SHAPE})))
        for s in settings
    )


@cache
def _multiplications(shape: str) -> int:
    """Return how many multiplications an encoder makes of one image."""
    wanted = validate(json.loads(shape), "a result")
    encoder, side = build_encoder(wanted, pretrained=False).eval(), wanted.views.size
    assert side is not None
    total = 0

    def count(layer: nn.Module, _: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal total
        places = out.shape[2] * out.shape[3] if out.dim() == 4 else 1
        total += places * layer.get_parameter("weight").numel()

    for layer in encoder.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.register_forward_hook(count)
    with torch.inference_mode():
        encoder(torch.zeros(1, side, side, 3, dtype=torch.uint8))
    return total


def _status(verdicts: Sequence[Verdict]) -> str:
    return together([checked for v in verdicts for checked in v.checks])


def _row(key: str, study: Study, verdicts: Sequence[Verdict], others: Sequence[tuple[Study, str]]) -> str:
    """Return a claim's line."""
    papers = list(dict.fromkeys(v.claim.paper for v in verdicts if v.claim.paper))
    ours = [f"{_named(checked)}: {_numbers(checked)}" for v in verdicts for checked in _shown(v)]
    words = [MARK[_status(verdicts)]]
    if len({v.status for v in verdicts}) > 1:
        words += [f"{v.claim.says}: {v.status}" for v in verdicts]
    words += [f"Why, we think: {v.claim.why}" for v in verdicts if v.claim.why and v.status != HELD]
    words += [f"Note: {v.claim.note}" for v in verdicts if v.claim.note]
    words += [note.removeprefix("; ").capitalize() for v in verdicts if (note := _before(study, v))]
    if others:
        said = [f"[{other.name}](../research/results-by-study.md#{other.name}) {status}" for other, status in others]
        words.append(f"Smaller studies: {', '.join(said)}")
    cells = [CLAIMS[key], "; ".join(papers), "<br>".join(ours), _setting(study), "<br>".join(words)]
    return f"| {' | '.join(cells)} |"


def _setting(study: Study) -> str:
    """Return data, epochs and seeds in a few words."""
    found = study.results()
    settings, seeds = found[0].settings, len({r.seed for r in found})
    link = f"[{study.name}](../research/results-by-study.md#{study.name})"
    if study.plan.task != "encoder":
        return f"{link}: {study.plan.setting.partition(';')[0]}; {seeds} seeds"
    data, epochs = settings["data"], max(r.settings["loop"]["epochs"] for r in found)
    name = {"cifar10": "CIFAR-10", "mini/train": "mini-ImageNet"}.get(data["source"], data["source"])
    network = settings["model"]["backbone"] + (" (frozen)" if settings["method"] == "head" else "")
    return f"{link}: {name}, {data['limit']:,} images, {epochs} epochs, {network}, {seeds} seeds"


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
