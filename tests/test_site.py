"""The site is built strictly, without a network, from every page of docs/, and publishes nothing internal."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nonneg_cli.table import nonneg

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
PARTS = ("docs", "client", "export", "training", "scripts", "zensical.toml")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
        else:
            shutil.copyfile(ROOT / name, root / name)
    return root


def build(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/site.py"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)


def test_the_site_has_every_page_and_every_help_and_nothing_internal(project: Path) -> None:
    done = build(project)
    assert done.returncode == 0, done.stdout + done.stderr
    site = project / "build" / "site"
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"commands", "api"}
    assert {page.stem for page in site.rglob("*.html")} == pages | {"404"}
    text = "".join(page.read_text() for page in site.glob("*.html"))
    menus = set(re.findall(r'<a href="\./([\w-]+)\.html" class="md-nav__link', text))
    assert not pages - {"index"} - menus, "these pages are missing in zensical.toml"
    commands = html.unescape(re.sub(r"<[^>]+>", "", (site / "commands.html").read_text()))
    assert all(f"Usage: nonneg {name} " in commands for name in nonneg.list_commands(click.Context(nonneg)))
    reference = (site / "api.html").read_text()
    assert all(f'id="nonneg_{name}"' in reference for name in ("client.client.Client", "vectors.search.index.Index"))
    loaded = re.findall(r'(?:src|<link[^>]+href)="(https?:[^"]+)"', text)
    assert not loaded, "a page that is read without a network fetches nothing"


def test_a_link_that_leads_nowhere_ends_the_build(project: Path) -> None:
    (project / "docs" / "how-it-works.md").write_text("# How\n\n[lost](no-such-page.md)\n")
    done = build(project)
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr
