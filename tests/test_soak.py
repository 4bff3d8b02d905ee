"""The soak's judgement of a server's memory: swings are not growth, and a small leak is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import theilslopes

SERVING = Path(__file__).parents[1] / "benchmarks" / "serving"
REQUESTS = 30 * 60  # a minute


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SERVING))
    import soak

    return soak


def minutes(own: np.ndarray) -> list[dict[str, Any]]:
    return [{"own_mb": round(float(mb), 2), "pss_mb": round(float(mb), 1) + 20, "statuses": {"200": 1}} for mb in own]


def hour(seed: int, *, leak: float = 0.0) -> np.ndarray:
    """140 MB, quickly reached, a tenth of one of noise, large images' memory kept for every fifth minute."""
    rng = np.random.default_rng(seed)
    t = np.arange(60)
    peaks = rng.uniform(5, 30, 60) * (rng.random(60) < 0.2)
    return 140 - 15 * np.exp(-t / 3) + rng.normal(0, 0.1, 60) + peaks + leak * REQUESTS * t / 2**20


@pytest.mark.parametrize("seed", range(20))
def test_an_hour_with_peaks_is_flat_and_with_50_bytes_a_request_is_not(soak: ModuleType, seed: int) -> None:
    assert soak.verdict(minutes(hour(seed)))["flat"]
    leaking = soak.verdict(minutes(hour(seed, leak=50)))
    assert not leaking["flat"]
    assert leaking["growth_least_mb"] > 0


def test_one_step_that_stays_late_in_the_hour_is_not_a_leak(soak: ModuleType) -> None:
    own = np.where(np.arange(60) < 52, 140.0, 148.0)
    assert soak.verdict(minutes(own))["flat"]


def test_what_swings_too_much_to_be_judged_is_not_called_flat(soak: ModuleType) -> None:
    own = 140 + np.random.default_rng(0).normal(0, 9, 60)
    found = soak.verdict(minutes(own))
    assert not found["flat"]
    assert found["growth_least_mb"] < 0 < found["growth_most_mb"]


def test_a_soak_too_short_to_judge_is_not_called_flat(soak: ModuleType) -> None:
    assert not soak.verdict(minutes(np.full(2, 140.0)))["flat"]
    assert soak.verdict(minutes(np.full(12, 140.0)))["flat"]


@pytest.mark.parametrize("count", [8, 45, 60])
def test_the_trend_is_theil_and_sens(soak: ModuleType, count: int) -> None:
    values = np.random.default_rng(count).normal(0, 3, count).cumsum()
    found, known = soak.trend(list(values)), theilslopes(values, np.arange(count), alpha=0.95)
    assert found.slope == pytest.approx(known.slope)
    spread = known.high_slope - known.low_slope
    assert found.least == pytest.approx(known.low_slope, abs=0.1 * spread)  # they round ranks the other way
    assert found.most == pytest.approx(known.high_slope, abs=0.1 * spread)
