"""Pictures of numbers by matplotlib, which is imported when one is drawn, and without a window system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nonneg_core.errors import MissingExtra
from nonneg_core.installing import package_hint

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(**options: Any) -> Figure:
    """An empty figure; raises MissingExtra where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure  # not pyplot: nothing is shown
    except ModuleNotFoundError:
        raise MissingExtra("a plot needs matplotlib", fix=package_hint("matplotlib")) from None
    return Figure(layout="constrained", **options)
