"""What a notebook offers behind the dot: the public names of each package, all of them there, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = """
import importlib, sys
for package in sys.argv[1:]:
    module = importlib.import_module(package)
    public = getattr(module, "__all__", None)
    names = {name for name in dir(module) if not (name.startswith("__") and name.endswith("__"))}
    if public is None:  # its modules are its names
        assert all(f"{package}.{name}" in sys.modules for name in names), (package, names)
    else:
        assert dir(module) == sorted(public), (package, dir(module))
        for name in public:
            getattr(module, name)
        assert dir(module) == sorted(public), (package, dir(module))
"""


def test_each_package_shows_its_public_names_and_no_others() -> None:
    files = [*ROOT.glob("*/nonneg_*/__init__.py"), *ROOT.glob("*/nonneg_*/**/*/__init__.py")]
    packages = sorted(".".join(file.parent.relative_to(ROOT).parts[1:]) for file in files)
    assert len(packages) > 40
    command = [sys.executable, "-c", CODE, *packages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
