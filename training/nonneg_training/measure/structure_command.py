"""`nonneg evaluate --structure`: what the dimensions of any encoder are like, beside floors that mean nothing."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_core.terminal.tables import table
from nonneg_training.data import Images, open_source, subset, unseen
from nonneg_training.measure.encoder_outputs import Outputs
from nonneg_training.measure.probing import ProbeResult, probe_rows
from nonneg_training.measure.target_to_measure import MeasuredTarget, is_array, open_target, read_array
from nonneg_training.setup.plugins import plugin_option
from nonneg_training.setup.run_settings import Channels, Data, Onnx
from nonneg_vectors.evaluation.linear_probes import halves
from nonneg_vectors.evaluation.retrieval import SELECTIONS, check_selections
from nonneg_vectors.evaluation.structure_report import COMPARED, CodeFigures, StructureReport, differences
from nonneg_vectors.evaluation.uncertainty import Interval

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
    outputs: Outputs,
    teach: Outputs | None = None,
    *,
    lengths: Sequence[int] = (),
    selections: Sequence[str] = ("prefix",),
    seed: int = 0,
) -> Report:
    """Measure structure of what is asked; probe and neighbours from `teach` to it, or from one half to the other."""
    if teach is None:
        first, other = halves(outputs.labels.tolist(), seed=seed)
        pair, labels = (outputs.z[first], outputs.z[other]), (outputs.labels[first], outputs.labels[other])
        features = None if outputs.features is None else (outputs.features[first], outputs.features[other])
    else:
        pair, labels = (teach.z, outputs.z), (teach.labels, outputs.labels)
        both = teach.features is not None and outputs.features is not None
        features = (np.asarray(teach.features), np.asarray(outputs.features)) if both else None
    return Report(
        outputs.structure(seed=seed),
        probe_rows(pair, labels, lengths=lengths, selections=selections, seed=seed),
        [] if features is None else probe_rows(features, labels),
    )


def structure_table(report: StructureReport) -> list[list[Any]]:
    """Return a line a figure: measured, and each floor; `-` where a floor says nothing."""
    floors: dict[str, CodeFigures | None] = {
        "shuffled": report.shuffled,
        "rotated": report.rotated,
        "untrained": report.untrained,
    }
    lines = []
    for name in COMPARED:
        values = [
            None if floor is None or (kind == "shuffled" and name not in ON_LABELS) else getattr(floor, name)
            for kind, floor in floors.items()
        ]
        lines.append([name, getattr(report.measured, name), *values])
    for k in report.measured.sepin or {}:
        values = [_sepin(figures, k) for figures in (report.measured, None, report.rotated, report.untrained)]
        lines.append([f"SEPIN@{k}", *values])
    return [[_short_number(cell) for cell in line] for line in lines]


def _sepin(figures: CodeFigures | None, k: str) -> str | None:
    if figures is None or figures.sepin is None or figures.sepin_intervals is None:
        return None
    low, high = figures.sepin_intervals[k]
    return f"{figures.sepin[k]:.4g} [{low:.2g} {high:.2g}]"


def row_cells(kind: str, row: ProbeResult) -> list[Any]:
    """Return a row of the second table."""
    return [kind, *(_short_number(value) for value in asdict(row).values())]


def _short_number(value: Any) -> Any:
    """Return numbers a table can show: four digits, whatever their size."""
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else value


@click.command("evaluate --structure")
@click.argument("what", nargs=-1, required=True, metavar="WHAT [WHAT]", type=click.Path(path_type=Path))
@click.option("--data", help="Labelled images: digits:test, cifar10:test, ..., or a folder. Default: the run's own.")
@click.option("--teach", help="Images that probe and neighbours learn from; without any, one half of --data.")
@click.option("--root", type=click.Path(path_type=Path), help="Where a named data set lies; default: $NONNEG_DATA.")
@click.option("--limit", type=click.IntRange(min=4), help="Measure on so many images, drawn by chance.")
@click.option("--mean", nargs=3, type=float, default=Onnx().mean, help="Of an ONNX file that takes floats: of 0..1.")
@click.option("--std", nargs=3, type=float, default=Onnx().std, help="The same; default: ImageNet's.")
@click.option("--size", type=click.IntRange(min=1), help="The side that an ONNX file is shown, where it takes any.")
@click.option("--labels", type=click.Path(path_type=Path), help="Of an array: .npy, or text with a label a line.")
@click.option("--lengths", default="", metavar="N,…", help="Dimensions to keep, beside all of them.")
@click.option("--selections", default="prefix", show_default=True, metavar="NAME,…", help=",".join(SELECTIONS))
@plugin_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the floors and of random dimensions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def structure(what: tuple[Path, ...], lengths: str, selections: str, seed: int, as_json: bool, **shown: Any) -> None:
    """Measure what the dimensions of WHAT are like: signed or not, a run, a bundle, an ONNX file, or an array.

    Sparsity, consistency, correlation, SEPIN and monosemanticity stand beside three floors. These are shuffled labels,
    the same codes randomly rotated and cut to the same sparsity, and an untrained head on the same features. Then a
    linear probe and neighbours on the embedding and, of a run, on the backbone's features. An array is .npz
    with z, labels and perhaps second (another view of the first images), or .npy with --labels. Two encoders are shown
    the same images, and their differences have 95 % intervals over these.

    \b
      nonneg evaluate --structure runs/ncl
      nonneg evaluate --structure runs/cl runs/ncl
      nonneg evaluate --structure dino.onnx --mean .485 .456 .406 --std .229 .224 .225 --data cifar10:test
      nonneg evaluate --structure photos.bundle --data cifar10:test --root data/ --teach cifar10:train
      nonneg evaluate --structure z.npy --labels labels.txt --lengths 64,16 --selections prefix,random
    """
    sizes, chosen = _lengths(lengths), selections.split(",")
    check_selections(chosen)
    if len(what) > 2:
        raise ConfigInvalid(f"{len(what)} encoders", fix="give one, or two to compare", field="WHAT", limit=2)
    encoders = [_outputs(each, seed=seed, **shown) for each in what]
    more = _more(what, *(outputs for _, outputs, _ in encoders), seed=seed) if len(what) == 2 else {}
    reports = [measure(outputs, before, lengths=sizes, selections=chosen, seed=seed) for _, outputs, before in encoders]
    if as_json:
        records = [{"what": title, **report.record()} for (title, *_), report in zip(encoders, reports, strict=True)]
        both = {"encoders": records, "differences": {name: asdict(each) for name, each in more.items()}}
        click.echo(json.dumps(both if more else records[0]))
        return
    for (title, *_), report in zip(encoders, reports, strict=True):
        _show(title, report)
    if more:
        click.echo(f"{what[1]} beside {what[0]}, on the same images; intervals of 95 % over images")
        click.echo(table(["", str(what[0]), str(what[1]), "difference", "interval"], _beside(reports, more)))


def _beside(reports: Sequence[Report], more: dict[str, Interval]) -> list[list[Any]]:
    """Return a line a figure: of both, and their difference."""
    first, second = (report.structure.measured for report in reports)
    numbers = {name: (getattr(first, name), getattr(second, name), each.mean) for name, each in more.items()}
    return [
        [name, *map(_short_number, numbers[name]), f"[{each.low:.2g} {each.high:.2g}]"] for name, each in more.items()
    ]


def _more(what: Sequence[Path], first: Outputs, second: Outputs, *, seed: int) -> dict[str, Interval]:
    """Return how much more the second encoder has of each figure, on the same images."""
    if first.order != second.order or not np.array_equal(first.labels, second.labels):
        raise ConfigInvalid(
            f"{what[0]} and {what[1]} were shown different images ({len(first.labels)} and {len(second.labels)})",
            fix="say which with --data, or give arrays of the same images in one order",
            field="--data",
        )
    return differences(first.z, second.z, first.labels, seed=seed)


def _outputs(
    what: Path,
    *,
    data: str | None,
    teach: str | None,
    root: Path | None,
    limit: int | None,
    labels: Path | None,
    mean: Channels,
    std: Channels,
    size: int | None,
    seed: int,
) -> tuple[str, Outputs, Outputs | None]:
    """Return a target's name, its rows of the images that are asked, and those of the images that teach."""
    if is_array(what):
        if data or teach:
            raise ConfigInvalid("an array brings its own labels", fix="leave --data and --teach out", field="--data")
        if root or limit:
            option = "--root" if root else "--limit"
            raise ConfigInvalid(
                f"{option} belongs to images, and {what} holds vectors", fix="leave it out", field=option
            )
        return str(what), read_array(what, labels), None
    if labels:
        raise ConfigInvalid("--labels belongs to an array", fix="leave it out", field="--labels")
    subject = open_target(what, seed=seed, onnx=Onnx(mean=mean, std=std), size=size)
    return subject.what, *_see(subject, data, teach, root, limit)


def _see(
    subject: MeasuredTarget, data: str | None, teach: str | None, root: Path | None, limit: int | None
) -> tuple[Outputs, Outputs | None]:
    """Return what it makes of the images that are asked, and of those that teach."""
    if data is None and subject.data is None:
        raise ConfigInvalid(f"{subject.what} does not say what to show it", fix="give --data", field="--data")
    own = subject.data if data is None else Data(source=data, root=root)
    assert own is not None
    own = own.model_copy(update={"root": root}) if root else own
    test = unseen(own) if data is None else None
    images = test or open_source(own)
    before = own if test is not None and teach is None else Data(source=teach, root=root) if teach else None
    outputs = _shown(subject, _limited(images, limit), seconds=True)
    return outputs, None if before is None else _shown(subject, _limited(open_source(before), limit), seconds=False)


def _limited(images: object, limit: int | None) -> Images:
    if not isinstance(images, Images):
        raise ConfigInvalid("a stream cannot be measured", fix="copy its images to a folder", field="--data")
    return subset(images, limit=limit)


def _shown(subject: MeasuredTarget, images: Images, *, seconds: bool) -> Outputs:
    with ProgressBar(f"looking at {images.name}", len(images)) as bar:
        return subject.see(images, seconds=seconds, tick=bar.move)


def _lengths(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",") if part]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 512,128") from None
    if min(sizes, default=1) < 1:
        raise ConfigInvalid(
            f"--lengths={min(sizes)} is not a number of dimensions",
            fix="give numbers from 1 up",
            field="--lengths",
            value=min(sizes),
            limit=1,
        )
    return sizes


def _show(what: str, report: Report) -> None:
    measured = report.structure
    click.echo(f"{what}; {measured.images} images of {measured.classes} classes")
    click.echo(table(["", "measured", "shuffled", "rotated", "untrained"], structure_table(measured)))
    click.echo(f"SEPIN: {measured.estimator}.\nMonosemanticity is judged by {measured.judge}.")
    lines = [row_cells("backbone", row) for row in report.features]
    lines += [row_cells("embedding", row) for row in report.embedding]
    click.echo(table(["", *(field.name for field in fields(ProbeResult))], lines))
