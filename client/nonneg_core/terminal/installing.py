"""How a missing part is installed: the pip command that works in this environment, for extras and for packages.

No command names `nonneg` alone: an index need not hold it, and a name that is not held there is one that others can
take. From a clone an extra is asked of the clone, with its constraints.txt; elsewhere its missing packages are named.
"""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nonneg_core.errors import MissingExtra

HEAVY = (
    " (torch may bring CUDA, gigabytes: without a GPU install torch and torchvision of its CPU build first, both from "
    "PyTorch's own index)"
)


@contextmanager
def needing(what: str, *, extra: str = "", package: str = "") -> Iterator[None]:
    """Raise MissingExtra where an import inside fails: `what` needs it, and the extra or the package brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        hint = extra_hint(extra) if extra else package_hint(package)
        raise MissingExtra(f"{what} needs {error.name}", fix=hint, value=error.name) from None


def extra_hint(extra: str) -> str:
    """Return the command that installs an extra into this environment."""
    clone, needed = _clone(), requirements(extra)
    if clone is not None:
        heavy = any(line.startswith("torch") for line in needed) and not _installed("torch")
        return _pip(["-c", str(clone / "constraints.txt"), "-e", f"{clone}[{extra}]"]) + (HEAVY if heavy else "")
    if not needed:
        return f"install nonneg's extra {extra}, from where nonneg itself came"
    missing = [line for line in needed if not _installed(line)] or needed
    return _pip(missing) + (HEAVY if any(line.startswith("torch") for line in missing) else "")


def package_hint(*packages: str) -> str:
    """Return the command that installs packages which are not part of an extra."""
    clone = _clone()
    return _pip([*(["-c", str(clone / "constraints.txt")] if clone else []), *packages])


def requirements(extra: str) -> list[str]:
    """List the packages that an extra of the installed distribution stands for, and the extras that it names."""
    try:
        declared = distribution("nonneg").requires or []
    except PackageNotFoundError:
        return []
    specifiers: dict[str, None] = {}
    waiting, followed = [extra], set()
    while waiting:
        current = waiting.pop()
        followed.add(current)
        for line in declared:
            requirement, _, marker = (part.strip() for part in line.partition(";"))
            if not re.search(rf"extra == ['\"]{re.escape(current)}['\"]", marker):
                continue
            where = re.sub(r"\s*(and\s+)?extra == ['\"][^'\"]+['\"]", "", marker)  # which systems it is for
            if own := re.fullmatch(r"nonneg\[([^\]]+)\]", requirement):
                waiting += [name for name in own[1].split(",") if name not in followed]
            else:
                specifiers[f"{requirement}; {where}" if where else requirement] = None
    return list(specifiers)


def _clone() -> Path | None:
    """Return the folder with the sources of an editable installation."""
    try:
        folder = _editable(distribution("nonneg"))
    except PackageNotFoundError:  # run from a source tree that was never installed
        folder = Path(__file__).resolve().parents[3]
    return folder if folder is not None and (folder / "pyproject.toml").is_file() else None


def _editable(installed: Distribution) -> Path | None:
    described = json.loads(installed.read_text("direct_url.json") or "{}")
    if not described.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(described["url"]).path))


def _pip(arguments: list[str]) -> str:
    """Return an install command for this interpreter, also where its environment has no pip of its own."""
    python = _quoted(sys.executable)
    words = " ".join(map(_quoted, arguments))
    if find_spec("pip") is not None:
        here = shutil.which("python")
        active = here is not None and os.path.abspath(here) == os.path.abspath(sys.executable)  # noqa: PTH100  no links
        return f"{'python' if active else python} -m pip install {words}"
    if shutil.which("uv"):
        return f"uv pip install --python {python} {words}"
    outside = getattr(sys, "_base_executable", None) or "python3"
    return f"{_quoted(outside)} -m pip --python {python} install {words}"


def _quoted(text: str) -> str:
    """Quote as a shell takes it: in double quotes where these are enough, which Windows knows as well."""
    if re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    return f'"{text}"' if re.fullmatch(r"[\w@%+=:,./<>~!;'()\[\] -]+", text) else shlex.quote(text)


def _installed(requirement: str) -> bool:
    try:
        distribution(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0])
    except PackageNotFoundError:
        return False
    return True
