"""Some seconds of fuzzing with a fixed seed, and a minute by night: what `scripts/fuzz` does for an hour."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "fuzzing"
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.slow]


def fuzzed(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])[0]
    assert done.returncode == bool(found["findings"])
    return found


@pytest.fixture(scope="module")
def mutations() -> Iterator[tuple[ModuleType, dict[str, list[bytes]]]]:
    pytest.importorskip("pillow_heif")
    sys.path.insert(0, str(FOLDER))
    import mutations
    from seeds import seeds

    yield mutations, seeds()
    sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("inputs", [2000, pytest.param(8000, marks=pytest.mark.nightly)])
def test_mutated_images_stay_within_the_bounds_of_time_memory_and_words(inputs: int, tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif")
    found = fuzzed("images", "--seed", "1", "--inputs", str(inputs), "--keep", str(tmp_path))
    assert found["findings"] == []
    assert found["inputs"] == inputs
    assert min(found["outcomes"].values()) > inputs / 80  # seen, unreadable, unsupported, too large: each is reached


@pytest.mark.parametrize("inputs", [300, pytest.param(1000, marks=pytest.mark.nightly)])
def test_mutated_requests_are_answered_in_time_and_never_with_a_fault(inputs: int, tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif")
    found = fuzzed("routes", "--seed", "1", "--inputs", str(inputs), "--keep", str(tmp_path))
    assert found["findings"] == []
    assert found["inputs"] == inputs
    assert {"200", "400", "404", "415", "422"} <= set(found["outcomes"])


def test_requests_are_made_for_every_route_of_the_application(
    mutations: tuple[ModuleType, dict[str, list[bytes]]],
) -> None:
    import every_route

    from nonneg_server.api import DIALECTS
    from nonneg_server.api.route import RouteTable

    routes = [route for dialect in DIALECTS for route in dialect.routes]
    table = RouteTable(routes)
    asked = [("GET", path) for path in every_route.GETS]
    asked += [(post.method, post.path) for post in every_route.posts(mutations[1]["PNG"][0])]
    found = {(method, getattr(table.find(method, path.partition("?")[0]), "path", None)) for method, path in asked}
    known = {(method, route.path) for route in routes for method in route.methods}
    assert known - found == set()
    assert found - known == set()


def test_containers_that_hold_themselves_are_still_files_of_their_format(
    mutations: tuple[ModuleType, dict[str, list[bytes]]],
) -> None:
    from nesting import NESTED

    from nonneg_core.errors import NonnegError
    from nonneg_core.pixels.decode import decode

    for kind, nest in NESTED.items():
        read = 0
        for number in range(60):
            file = mutations[1][kind][number % 2]
            data = nest(file, random.Random(number))
            assert data != file
            with suppress(NonnegError):
                read += set(decode(data).size) == {96, 64}
        assert read > 5, kind


def test_a_file_that_is_taken_apart_and_put_together_is_the_same(
    mutations: tuple[ModuleType, dict[str, list[bytes]]],
) -> None:
    module, seeds = mutations
    for kind, (split, join) in module.STRUCTURES.items():
        for file in seeds[kind]:
            assert join(split(file)) == file, kind


def test_an_input_is_known_by_its_seed_and_number(mutations: tuple[ModuleType, dict[str, list[bytes]]]) -> None:
    module, seeds = mutations
    for kind, files in seeds.items():
        made = [module.mutated(kind, files, random.Random(f"1 {number}")) for number in range(20)]
        assert made == [module.mutated(kind, files, random.Random(f"1 {number}")) for number in range(20)]
        assert sum(one not in files for one in made) > 15
