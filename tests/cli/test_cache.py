"""`nonneg cache`: what is kept is shown with its size, and goes when that is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from nonneg_cli.cache import cache
from nonneg_core.files.user_cache import LOCK, cache_folder, evict, locked


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NONNEG_FEATURE_CACHE", str(tmp_path / "elsewhere"))
    return tmp_path


def entry(kind: str, name: str, *, age: int = 0, size: int = 2**20) -> Path:
    place = cache_folder(kind) / name
    place.mkdir(parents=True)
    (place / "rows").write_bytes(b"x" * size)
    os.utime(place, (10**9 - age, 10**9 - age))
    return place


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(cache, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_folder_is_shown_with_its_entries_and_its_size(home: Path) -> None:
    entry("adapt", "one")
    entry("adapt", "two")
    entry("features", "three")
    lines = {line.split()[0]: line.split()[1:] for line in shown().splitlines()[1:]}
    assert lines == {
        str(home / "nonneg" / "adapt"): ["2", "2.0"],
        str(home / "elsewhere" / "features"): ["1", "1.0"],
    }


def test_an_empty_cache_is_said_to_be_empty(home: Path) -> None:
    assert shown() == f"{home / 'nonneg'} holds nothing\n"


def test_clearing_removes_all_but_what_a_process_works_on() -> None:
    used, unused = entry("export", "used"), entry("curate", "unused")
    cache_folder("indexed").mkdir()
    (cache_folder("indexed") / "notes.jsonl").write_text("[]")
    with locked(used / LOCK):
        shown("--clear")
    assert used.exists()
    assert not unused.exists()
    assert not list(cache_folder("indexed").iterdir())


def test_the_newest_entries_stay() -> None:
    places = [entry("curate", f"{age}", age=age) for age in (3, 1, 2)]
    evict(cache_folder("curate"), newest=2)
    assert [place.exists() for place in places] == [False, True, True]
