"""Writes docs/what-the-numbers-mean.md: each published figure as the paper says it, as the code computes it, and ours.

python -m research.study.results_page writes it with the other pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from research.study import Study
from research.study.claim_verdict import by_seed, estimate

PAGE = Path(__file__).parents[2] / "docs" / "what-the-numbers-mean.md"
HEAD = """# What the numbers of NCL mean

For each figure that the paper ([arXiv 2403.12459](https://arxiv.org/abs/2403.12459)) publishes: what it says, what the
released code computes, and what we compute. The code is [PKU-ML/non_neg](https://github.com/PKU-ML/non_neg) at 880b3ce
and 438f9c5. It was read, not run. A published number may come from another state of the code.
"""
FOOT = """
## What follows

- **Compare within one code, not across.** Five of the figures above change with a choice that the paper does not state.
- **CL's consistency says nothing.** Its vectors are signed, so every image is active in every dimension, and the figure
  is the share of the largest class: 10.0 with ten equal classes, 1.0 with a hundred.
- **An unweighted mean flatters rare dimensions**: one that is active on a single image is consistent by definition.
  Shuffled labels show how much, so the page has them beside it.
- **A selection can be free for two reasons**: the other dimensions are dead, or they say the same. Count live ones.
- **Sparsity has a dead part.** A dimension that is zero on every image counts as zeros. `live` says how many are not.

The verdicts are in [results](results.md), the measures in [training](training.md#what-an-encoder-is-worth).
`python -m research.study.results_page` writes this page, and a test fails where it and the results disagree.
"""


@dataclass(frozen=True)
class Published:
    """A published figure, and which of our studies measures its twin."""

    name: str
    paper: str
    code: str
    ours: str
    study: str
    theirs: Sequence[tuple[str, str]]  # variant and figure, by their definition
    twin: Sequence[tuple[str, str]]  # by ours


def _both(figure: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("ncl", figure), ("cl", figure)


FIGURES = (
    Published(
        "Every figure of the projector's output",
        "the trained encoder's",
        "the evaluation script never calls `.eval()`: batch norm stays in training mode and takes the statistics of "
        "the test batch. ImageNet-100 is read class by class, 128 images a batch: two or three classes",
        "the encoder in evaluation mode",
        "features", (), (),
    ),
    Published(
        "The ReLU at evaluation",
        "NCL's features are not negative",
        "it is applied where the path of the checkpoint holds the word `relu`. A run by the README's name does not",
        "it is a part of the encoder",
        "features", (), (),
    ),
    Published(
        "Class consistency",
        "the share of the most frequent class among the images that activate a dimension: 53.8 against 10.0 "
        "(CIFAR-10, independent re-runs)",
        "test images; columns with a positive sum; active is an entry above 1e-5 of a vector of length one; the plain "
        "mean over columns",
        "both means: the plain one, and one weighted by how many images a dimension is active on",
        "features", _both("structure.consistency_unweighted"), _both("structure.consistency"),
    ),
    Published(
        "Sparsity",
        "more than 90 % of the entries are zero",
        "in training: below 1e-5 of vectors of length one, a training batch. In the evaluation script: below 1e-2 of "
        "vectors as they are, so that it depends on their length",
        "below 1e-5 of vectors of length one, test images",
        "features", (("ncl", "structure.sparsity_loose"),), (("ncl", "structure.sparsity"),),
    ),
    Published(
        "Correlation",
        "a picture",
        "in the evaluation script: the median cosine of columns that add up to more than 10. In training: "
        "the mean cosine",
        "the mean absolute cosine of live columns of vectors of length one",
        "features", _both("structure.correlation_median"), _both("structure.correlation"),
    ),
    Published(
        "SEPIN@k",
        "@1 7.43 against .88, @10 5.93 against .79, @100 3.87 against .69, all .48 against .47; no estimator is named",
        "not in the repository",
        "nats, by the InfoNCE bound in blocks of 256 pairs; dimensions are chosen on one half of the pairs and "
        "measured on the other. Sizes cannot be compared, ratios can",
        "features", (), _both("structure.sepin.10"),
    ),
    Published(
        "Retrieval, \"mAP\"",
        "mAP@10: 14.2 against 10.9",
        "precision at 10, on the test images alone: each asks for the others, and the same images rank the dimensions. "
        "Vectors are divided by their length first, cut, and compared by distance",
        "precision at 10 from training to test images; dimensions are ranked on training images; vectors are divided "
        "by their length after the cut",
        "features-100", (), (("ncl", "relu.p_at_10"), ("cl", "raw.p_at_10")),
    ),
    Published(
        "Selection: linear probe of 512 of 2048",
        "68.9 of 68.9 by expected activation, random 64.3",
        "the linear script probes the projector's output **before** the ReLU, in an order by the mean of the ReLU's "
        "output on training views.",
        "before and after the ReLU, ridge regression; here all, and 512 by activation",
        "features-100",
        (("ncl", "raw.probe"), ("ncl", "official.prefix.512.probe")),
        (("ncl", "relu.probe"), ("ncl", "relu.activation.512.probe")),
    ),
    Published(
        "Linear probe and fine-tuning",
        "87.8 against 87.6; 92.6 against 92.3",
        "the backbone's features, not the projector's; one run each",
        "the same, five seeds, with the interval of the difference",
        "pixels", (), (("ncl", "backbone.probe"), ("cl", "backbone.probe")),
    ),
)  # fmt: skip


def numbers_page(results: Path) -> str:
    """Return the page, in Markdown."""
    studies = {name: Study(name, results=results) for name in {figure.study for figure in FIGURES}}
    parts = [HEAD]
    for figure in FIGURES:
        lines = [
            f"\n## {figure.name}\n",
            f"- **Paper**: {figure.paper}.",
            f"- **Code**: {figure.code}.",
            f"- **Here**: {figure.ours}.",
        ]
        if figure.theirs or figure.twin:
            lines.append(f"- **Values of our runs** ({_link(figure.study)}): {_values(studies[figure.study], figure)}.")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts) + FOOT


def _link(study: str) -> str:
    return f"[{study}](../research/studies.md)"


def _values(study: Study, figure: Published) -> str:
    found = study.results()
    if not found:
        return f"not measured yet (`python -m research.study run {study.name}`)"
    sides = []
    for words, asked in (("by their definition", figure.theirs), ("by ours", figure.twin)):
        numbers = []
        for variant, name in asked:
            values = list(by_seed(found, variant, name).values())
            numbers.append(f"{variant.upper()} `{name}` {estimate(values) if values else '-'}")
        if numbers:
            sides.append(f"{words} {', '.join(numbers)}")
    return "; ".join(sides)
