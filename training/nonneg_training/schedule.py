"""The learning rate: a straight rise, then half a cosine down to zero."""

from __future__ import annotations

import math


def rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Return the rate of step 0 <= step < steps; the first `warmup` share of them rises."""
    rising = int(steps * warmup)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))
