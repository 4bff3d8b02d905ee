"""Quality by length as a picture: how much of the whole each selection keeps at each length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid
from nonneg_core.figures import figure
from nonneg_export.manifest_report import selections
from nonneg_runtime.bundle import storing
from nonneg_runtime.evidence import Quality
from nonneg_runtime.manifest import Manifest

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


def _panel(axes: object, quality: Quality, field: str, label: str, called: dict[str, str]) -> None:
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
