"""What a notebook offers behind the dot: the public names of each package, all of them there, and no others."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = ["nonneg_client", "nonneg_client.search", "nonneg_server", "nonneg_training"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_shows_its_public_names_and_no_others(package: str) -> None:
    code = (
        "import importlib, sys\n"
        f"package = importlib.import_module({package!r})\n"
        "assert dir(package) == sorted(package.__all__), dir(package)\n"
        "for name in dir(package): getattr(package, name)\n"
        "assert dir(package) == sorted(package.__all__), dir(package)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
