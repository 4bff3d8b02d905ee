"""How long torch's threads spin while they wait for each other: short, because the machine may have other work.

GNU OpenMP, which torch's CPU builds use, spins some 16 ms at each of the thousands of barriers of a step before it
sleeps. Beside other work the thread that is waited for often has no core, and those that spin keep it from getting one.
After a thousand turns, some 50 microseconds, they sleep: the number that OpenMP itself takes where it knows of more
threads than cores. It reads the variable when it is loaded, so this comes before torch.
"""

from __future__ import annotations

import os

VARIABLE = "GOMP_SPINCOUNT"
TURNS = 1000


def limit_spinning() -> None:
    """Have waiting threads sleep soon, unless the environment says how they wait."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(VARIABLE, str(TURNS))
