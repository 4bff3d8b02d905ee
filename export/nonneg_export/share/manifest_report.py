"""What a manifest says, as lines, Markdown tables and a picture of quality by length."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid
from nonneg_core.terminal.tables import figure
from nonneg_runtime.bundle import evidence
from nonneg_runtime.bundle.bundle_folder import storing
from nonneg_runtime.bundle.manifest import AdaptationRecord, Manifest, TextRecord, Variant
from nonneg_runtime.words.names import Name

PREFIX = 512  # dimensions: the length that shortened vectors mostly have
SELECTIONS = {
    "random": "random",
    "variance": "variance",
    "pca": "PCA",
    "features": "raw features",
}
FLOORS = ("shuffled", "rotated", "untrained")
OWN = "expected-activation"  # what rows of the bundle's own order are called, whatever it was ranked by


def summary(manifest: Manifest) -> str:
    """Describe a bundle: facts, files, checks and quality."""
    parts = [_facts(manifest)]
    if manifest.checks:
        parts.append("checks\n" + table(("check", "found", "limit", ""), _checks(manifest)))
    if manifest.adaptation is not None:
        parts.append(adaptation(manifest.adaptation))
    if manifest.quality is not None:
        parts.append(quality(manifest, manifest.quality))
    if manifest.certificate is not None:
        parts.append(certificate(manifest.certificate))
    if manifest.kept is not None:
        parts.append(neighbours_report(manifest.kept))
    if manifest.text is not None and manifest.text.recall:
        parts.append(recall(manifest.text))
    return "\n\n".join(parts)


def certificate(record: evidence.CertificateRecord) -> str:
    """Return whether the dimensions mean something: each figure beside its floors, and the verdict."""
    head = (
        f"meaning of the dimensions on {record.data}: {record.images:,} photos of {record.classes} classes, "
        f"{record.pairs} pairs; judge {record.judge}"
    )
    rows = [
        (
            figure.name, str(figure.dimensions), _interval(figure.measured),
            *(_interval(figure.floors.get(floor)) for floor in FLOORS),
        )
        for figure in record.figures
    ]  # fmt: skip
    notes = [f"{record.outcome}: {record.reason}", *record.missing]
    return "\n\n".join([head, table(("figure", "dims", "measured", *FLOORS), rows), "\n".join(notes)])


def stability(record: evidence.StabilityRecord) -> str:
    """Return how alike names are over seeds."""
    return (
        f"of {record.seeds} seeds two share {record.shared:.0%} of the names; over {record.data} columns of one name "
        f"correlate {record.correlation:.2f} (of two names {record.floor:.2f}) and share {record.strongest:.0%} of "
        "their ten strongest photos"
    )


def _interval(bounds: evidence.Bounds | None) -> str:
    return "-" if bounds is None else f"{bounds.value:.3f} [{bounds.low:.3f} {bounds.high:.3f}]"


def neighbours_report(record: evidence.Kept) -> str:
    """Return what the columns keep of the encoder's own features, by length."""
    head = (
        f"against the encoder's own {record.features} features ({4 * record.features} bytes), on {record.images:,} "
        f"photos of {record.data} that the head was not computed from"
    )
    rows = [
        (str(row.dimensions), share(row.neighbours), f"{row.zero_share:.2%}", f"{row.mean_nnz:.1f}", f"{row.bytes:.0f}")
        for row in record.rows
    ]
    return f"{head}\n\n" + table(("dims", f"nearest {record.nearest} kept", "zero", "nnz", "bytes"), rows)


def recall(record: TextRecord) -> str:
    """Return how often texts and images find each other, both ways, by length."""
    depths = list(record.recall[0].text_to_image)
    ways = [f"{way} R@{depth}" for way in ("text to image", "image to text") for depth in depths]
    named = [(str(row.dimensions), row) for row in record.recall]
    named += [] if record.raw is None else [(f"{record.raw.dimensions}, features", record.raw)]
    rows = [
        (name, *(share(way[k]) for way in (row.text_to_image, row.image_to_text) for k in depths))
        for name, row in named
    ]
    return f"recall on {record.data}\n\n" + table(("dims", *ways), rows)


def adaptation(record: AdaptationRecord) -> str:
    """Return what an adaptation gained and lost: a row a length; photos of other kinds stand apart."""
    others = [gain for gain in record.gains if gain.metric.startswith(evidence.OTHERS)]
    own = [gain for gain in record.gains if gain not in others]
    return "\n\n".join([*(_gains(some) for some in (own, others) if some), record.verdict])


def _gains(gains: Sequence[evidence.Gain]) -> str:
    metrics = list(dict.fromkeys(gain.metric for gain in gains))
    cells = {(gain.length, gain.metric): gain for gain in gains}
    lengths = list(dict.fromkeys(gain.length for gain in gains))
    return table(("length", *metrics), [(n, *(_gain(cells[n, metric]) for metric in metrics)) for n in lengths])


def _gain(gain: evidence.Gain) -> str:
    return f"{gain.before:.3f} -> {gain.after:.3f} ({gain.difference:+.3f} [{gain.low:+.3f} {gain.high:+.3f}])"


def selections(manifest: Manifest) -> dict[str, str]:
    """Name each way to choose dimensions; the bundle's own order by what it was ranked by."""
    by = manifest.calibration.ranked_by
    return {
        OWN: "expected activation" if by == OWN else f"own order ({by})" if by != "none" else "own order",
        **SELECTIONS,
    }


def quality(manifest: Manifest, scores: evidence.Quality) -> str:
    """Return the quality by length: what it was measured on, the table, and what the dimensions are like."""
    lonely = f" ({scores.lonely_classes} with one image)" if scores.lonely_classes else ""
    head = (
        f"quality on {scores.data}: {scores.images:,} images, {scores.classes} classes{lonely}, "
        f"{scores.queries:,} queries; {scores.live_dimensions} live dimensions"
    )
    columns = ("selection", "dims", "top_k", "asked", "P@1", "P@10", f"mAP@{scores.k}", "kNN", "zero", "nnz", "bytes")
    called = selections(manifest)
    rows = [
        (
            called[row.selection], str(row.dimensions), str(row.top_k or "-"),
            "-" if row.top_k is None else row.asked, share(row.p_at_1),
            share(row.p_at_10), share(row.map_at_k), share(row.knn), f"{row.zero_share:.2%}",
            f"{row.mean_nnz:.1f}", f"{row.bytes:.0f}",
        )
        for row in scores.rows
    ]  # fmt: skip
    notes = f'P@10 is what the NCL authors call "mAP@10"; random is the mean of {scores.seeds} draws. {scores.method}'
    return "\n\n".join([head, table(columns, rows), structure(scores.structure), notes.strip()])


def structure(statistics: evidence.Structure) -> str:
    """Return sparsity, correlation, consistency beside its floor, SEPIN."""
    sepin = ", ".join(
        f"@{k} {value:.2g}{_within(statistics.sepin_intervals.get(k))}" for k, value in statistics.sepin.items()
    )
    estimator = statistics.sepin_estimator + ("" if statistics.sepin_intervals else "; without intervals")
    return (
        f"sparsity {share(statistics.sparsity)}; correlation {share(statistics.correlation)}; consistency "
        f"{share(statistics.consistency)} weighted (shuffled labels {share(statistics.consistency_floor)}), "
        f"{share(statistics.consistency_unweighted)} unweighted ({share(statistics.consistency_unweighted_floor)}); "
        f"SEPIN {sepin} ({estimator})"
    )


def _within(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{bounds[0]:.2g} {bounds[1]:.2g}]"


def named(manifest: Manifest, names: Sequence[Name]) -> str:
    """Return the dimensions that have a name, how often each is active, and why it is called so."""
    of_prefix = [name for name in names if name.dimension < PREFIX]
    head = (
        f"{manifest.name}: {len(names)} of {manifest.dimensions} dimensions have a name, "
        f"{len(of_prefix)} of the first {min(PREFIX, manifest.dimensions)}"
    )
    frequency = manifest.columns.frequency
    rows = [(name.called, str(name.dimension), f"{frequency[name.dimension]:.1%}", name.evidence) for name in names]
    return "\n\n".join([head, table(("name", "dimension", "active", ""), rows)])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table that is also aligned for the eye: words left, numbers right."""
    cells = [tuple(columns), *(tuple(row) for row in rows)]
    words = {i for i in range(len(columns)) if i == 0 or not columns[i]}
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(w) if i in words else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i in words else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])


def share(value: float) -> str:
    """Return a number between 0 and 1, in three digits."""
    return f"{value:.3f}"


def size(count: int) -> str:
    """Return bytes for people."""
    return f"{count / 2**20:.1f} MB" if count >= 2**20 else f"{count / 2**10:.1f} kB"


def _facts(manifest: Manifest) -> str:
    view, calibration, source = manifest.view, manifest.calibration, manifest.provenance
    atlas, head, names, text = manifest.atlas, manifest.head, manifest.names, manifest.text
    sentences = manifest.sentences
    live = sum(value > 0 for value in manifest.columns.frequency)
    facts = {
        "model": f"{manifest.name} {manifest.version}",
        "about": manifest.description,
        "fingerprint": manifest.fingerprint,
        "derived from": manifest.derived_from,
        "dimensions": f"{manifest.dimensions}, {live} live, {mean(manifest.columns.frequency):.0%} active on an image",
        "activation": manifest.activation,
        "precision": manifest.precision,
        "forms": "; ".join(map(_form, manifest.variants)),
        "text": "" if text is None else f"{text.file}, up to {text.length} tokens ({text.tokenizer})",
        "head": "" if head is None else f"{head.file}, on {head.takes}, the first {head.trained} columns trained",
        "names": "" if names is None else f"{names.named} dimensions, {names.checked} checked on {names.data}",
        "stability": "" if names is None or names.stability is None else stability(names.stability),
        "sentences": ""
        if sentences is None
        else f"{sentences.weights} [{sentences.license}]; fitted on {sentences.data}",
        "words": "" if manifest.lexicon is None else f"{manifest.lexicon.words:,} ({manifest.lexicon.source})",
        "view": f"{view.size} x {view.size}, {view.fit} {view.crop:g}, {view.interpolation}",
        "ranked by": f"{calibration.ranked_by}, on {calibration.images:,} images ({calibration.data})",
        "weights": f"{source.weights} [{source.weights_license}]",
        "data": f"{source.data} [{source.data_license}]",
        "note": source.note,
        "atlas": ""
        if atlas is None
        else f"{atlas.images:,} thumbnails from {atlas.data}, {atlas.named} dimensions named",
        "files": ", ".join(f"{name} {size(record.bytes)}" for name, record in manifest.files.items()),
    }
    return "\n".join(f"{name + ':':<14}{text}" for name, text in facts.items() if text)


def _form(variant: Variant) -> str:
    """Return a form of the encoder in another precision, and what it costs."""
    lost = ", ".join(f"{check.value:.2g} {check.what}" for check in variant.checks if check.name != "batch")
    return f"{variant.precision}, in the same space: {lost}"


def _checks(manifest: Manifest) -> list[tuple[str, ...]]:
    texts = () if manifest.text is None else manifest.text.checks
    return [(c.name, f"{c.value:.2g}", f"{c.limit:.2g}", c.what) for c in (*manifest.checks, *texts)]


def mean(values: Sequence[float]) -> float:
    """Return the average."""
    return sum(values) / len(values)


# Quality by length as a picture: how much of the whole each selection keeps at each length.

LOOKS: dict[str, dict[str, Any]] = {
    "expected-activation": {"color": "#1b6e3c", "marker": "o", "linewidth": 2.6},
    "variance": {"color": "#c2691e", "marker": "s"},
    "random": {"color": "#8a8a8a", "marker": "v"},
    "pca": {"color": "#3b6ea5", "marker": "d", "linestyle": "--"},
    "features": {"color": "#b03060", "marker": "*", "markersize": 11, "linestyle": "none"},
}
SIGNED = "PCA (dense, signed)"
FORMATS = ("png", "svg")


def draw(manifest: Manifest, path: Path) -> None:
    """Draw P@1 and mAP over the number of dimensions, one line a selection; PNG or SVG by the file's suffix."""
    if manifest.quality is None:
        raise DataInvalid(f"{manifest.name} carries no quality report", fix="export it with --evaluate LABELLED")
    if path.suffix.lstrip(".") not in FORMATS:
        raise DataInvalid(f"{path.name}: a plot is {' or '.join(FORMATS)}", fix="name it so", value=path.suffix)
    quality, drawn = manifest.quality, figure(figsize=(9, 4))
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "nonneg", "font.size": 10}):
        for axes, (field, label) in zip(
            drawn.subplots(1, 2), (("p_at_1", "P@1"), ("map_at_k", f"mAP@{quality.k}")), strict=True
        ):
            _panel(axes, quality, field, label, {**selections(manifest), "pca": SIGNED})
        drawn.suptitle(f"{manifest.name}: retrieval by length, {quality.images:,} images of {quality.classes} classes")
        with storing(path):
            drawn.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


def _panel(axes: object, quality: evidence.Quality, field: str, label: str, called: dict[str, str]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    lengths = sorted({row.dimensions for row in quality.rows if row.top_k is None and row.selection != "features"})
    for name, look in LOOKS.items():
        rows = sorted((r for r in quality.rows if r.selection == name and r.top_k is None), key=lambda r: r.dimensions)
        if not rows:
            continue
        axes.plot([r.dimensions for r in rows], [getattr(r, field) for r in rows], label=called[name], **look)
    axes.set_xscale("log", base=2)
    shown = [n for n in lengths if n == lengths[-1] or n * 1.5 < lengths[-1]]  # so that numbers do not overlap
    axes.set_xticks(shown, [str(n) for n in shown])
    axes.minorticks_off()
    axes.set_xlabel("dimensions kept")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
