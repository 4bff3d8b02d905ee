"""The arithmetic of the training benchmark: quiet rounds alone count, and ratios are of slices of one round."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "serving"))
    monkeypatch.syspath_prepend(str(ROOT))
    import training_throughput

    return training_throughput


def one(benchmark: ModuleType, speed: float, others: float, ratio: float) -> dict[str, dict[str, float]]:
    """A round on a machine that is `speed` times as fast, in which ours does `ratio` times the best of theirs."""
    rates = dict.fromkeys(benchmark.OURS, 100 * ratio) | dict.fromkeys(benchmark.THEIRS, 50)
    rates |= {benchmark.THEIRS[2]: 100} | {side + benchmark.READY: 125 * ratio for side in benchmark.OURS[:2]}
    return {side: {"rate": rate * speed, "cpu_ms": 2000 / rate, "others": others} for side, rate in rates.items()}


def test_a_machine_that_changes_its_speed_between_rounds_does_not_change_the_ratio(benchmark: ModuleType) -> None:
    found = benchmark.summary([one(benchmark, speed, 0.01, 1.5) for speed in (1, 0.5, 2)])
    assert found["ratio"] == found["ratio by CPU time"] == [1.5, 1.5, 1.5]
    assert found["outside"]["nonneg"] == pytest.approx([0.2, 0.2, 0.2])
    assert found["rates"]["nonneg"] == [150, 75, 300]


def test_rounds_that_others_disturbed_do_not_count_where_enough_were_quiet(benchmark: ModuleType) -> None:
    quiet = [one(benchmark, 1, 0.02, 1.2)] * benchmark.ENOUGH
    found = benchmark.summary([one(benchmark, 1, 0.5, 3.0), *quiet, one(benchmark, 1, 0.4, 0.3)])
    assert found["ratio"] == [1.2, 1.2, 1.2]
    assert found["others"] == [0.02, 0.02, 0.02]


def test_without_lightly_only_our_sides_are_reported(benchmark: ModuleType) -> None:
    alone = {side: row for side, row in one(benchmark, 1, 0, 1).items() if side not in benchmark.THEIRS}
    assert "ratio" not in benchmark.summary([alone])
