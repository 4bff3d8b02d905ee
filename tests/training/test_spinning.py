"""Threads that wait for each other sleep soon: beside other work a spinning one takes the core of the one it awaits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASKED = {"OMP_DISPLAY_ENV": "VERBOSE"}  # OpenMP prints what it goes by when it is loaded


def spin_count(**environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", "import nonneg_training.loop.training_run"],
        env={**kept, **ASKED, **environment}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not lines:
        pytest.skip("this torch does not use GNU OpenMP")
    return lines[0].partition("=")[2].strip(" '")


def test_torchs_threads_sleep_after_a_thousand_turns() -> None:
    assert spin_count() == "1000"


@pytest.mark.slow
def test_the_environment_may_say_otherwise() -> None:
    assert spin_count(GOMP_SPINCOUNT="77") == "77"
    assert spin_count(OMP_WAIT_POLICY="PASSIVE") == "0"
