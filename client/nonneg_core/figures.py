"""Pictures of numbers by matplotlib, which is imported when one is drawn, and without a window system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nonneg_core.installing import needing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(**options: Any) -> Figure:
    """Return an empty figure; raises MissingExtra where matplotlib is not installed."""
    with needing("a plot", package="matplotlib"):
        from matplotlib.figure import Figure  # not pyplot: nothing is shown
    return Figure(layout="constrained", **options)
