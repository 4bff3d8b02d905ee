"""The docs are run: every block in order, in a temporary folder with photos, against a real server.

A block is ```bash (runs with -euo pipefail), ```console (`$ command` lines, and what they print, where `...` stands for
anything) or ```python (one namespace a page). `<!-- not run: reason -->` on the line before exempts a block.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from nonneg_core.errors import BY_TYPE

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "research").glob("*.md"))
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+) -->\s*$")
RUNNABLE = {"bash", "console", "python"}


@dataclass(frozen=True)
class Block:
    """One piece of code on a page."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        exempt = NOT_RUN.search(text[: match.start()])
        if match["language"] in RUNNABLE and not exempt:
            found.append(Block(match["language"], match["code"], text[: match.start()].count("\n") + 2))
    return found


BY_DAY = {"README.md", "client.md", "requests.md", "tutorial-retrieval.md"}
RUN = [page if page.name in BY_DAY else pytest.param(page, marks=pytest.mark.nightly) for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_blocks_of_a_page_do_what_it_says(
    page: Path, server: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "photo.jpg").write_bytes(next(iter(sorted(photos.rglob("*.jpg")))).read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NONNEG_URL", server)
    monkeypatch.setenv("COLUMNS", "100")
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(page):
        code = block.code.replace("http://127.0.0.1:8000", server)
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), namespace)
        elif block.language == "bash":
            shell(code, where)
        else:
            for command, expected in dialogue(code):
                printed = shell(command, where)
                assert not expected or matches(expected, printed), f"{where}\n$ {command}\n{printed}"


def shell(code: str, where: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, f"{where}\n{code}\n{done.stdout}{done.stderr}"
    return done.stdout


def dialogue(code: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what the page says it prints."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]
    turns = []
    for part in parts:
        lines = part.rstrip("\n").split("\n")
        end = next(i for i, line in enumerate(lines) if not line.endswith("\\")) + 1
        turns.append(("\n".join(lines[:end]), "\n".join(lines[end:])))
    return turns


def matches(expected: str, printed: str) -> bool:
    """Equal but for `...`, and for white space at the ends of lines."""
    squeeze = [re.sub(r"[ \t]+", " ", text.strip()) for text in (expected, printed)]
    pattern = ".*".join(re.escape(piece) for piece in squeeze[0].split("..."))
    return re.fullmatch(pattern, squeeze[1].replace(" \n", "\n"), re.DOTALL) is not None


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").rglob("adr/*.md"))], ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_page_that_lies_is_caught() -> None:
    assert matches("a ... c", "a b c")
    assert not matches("a ... c", "a b d")
    assert dialogue("$ one \\\n  two\nprinted\n$ three\n") == [("one \\\n  two", "printed"), ("three", "")]


def test_every_error_is_documented_with_its_status() -> None:
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in page_text("docs/errors.md") if "|" in line]
    documented = {row[0]: row[1] for row in rows if len(row) == 5}
    for name, kind in BY_TYPE.items():
        on_the_wire = kind.status != 500 or name == "internal"
        assert documented.get(name) == (str(kind.status) if on_the_wire else "-"), name


def test_every_module_that_a_page_runs_with_m_can_be_run() -> None:
    named = {name for page in PAGES for name in re.findall(r"-m ((?:nonneg_|research)[\w.]+)", page.read_text())}
    assert named
    for name in named:
        found = find_spec(name)
        assert found is not None, name
        if found.submodule_search_locations is not None:
            assert find_spec(f"{name}.__main__") is not None, f"{name} is a package without a __main__"
        else:
            assert '__name__ == "__main__"' in Path(str(found.origin)).read_text(), name


def page_text(name: str) -> list[str]:
    return (ROOT / name).read_text().splitlines()


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").rglob("adr/*.md"))], ids=lambda page: page.name)
def test_no_page_shows_code_that_is_exempt_without_a_reason(page: Path) -> None:
    for reason in re.findall(r"<!-- not run:([^>]*)-->", page.read_text()):
        assert len(reason.strip()) > 10
