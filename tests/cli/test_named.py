"""Named data where a folder of images is taken."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_cli.table import HOME, NAMES, OrNamed, nonneg
from nonneg_core.errors import ConfigInvalid
from nonneg_training import data
from nonneg_training.data import SPLIT, open_data
from nonneg_training.data.data_set_as_folder import unpacked

pytestmark = pytest.mark.slow


def test_the_names_are_those_of_training() -> None:
    assert NAMES == SPLIT
    assert HOME == data.HOME


TAKEN = [
    ("adapt", "photos"), ("adapt", "others"), ("atlas", "calibrate"), ("certify", "images"),
    ("compare", "data"), ("diff", "a"), ("diff", "b"),
    ("embed", "images"), ("evaluate", "data"), ("export", "calibrate"), ("export", "evaluate"), ("index", "sources"),
    ("quantize", "calibrate"), ("quantize", "evaluate"), ("rank", "calibrate"), ("rank", "evaluate"),
    ("studio", "images"), ("wrap", "calibrate"), ("wrap", "evaluate"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "taken"), TAKEN)
def test_every_command_that_takes_a_folder_of_images_takes_a_name(
    name: str, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mini" / "val").mkdir(parents=True)
    monkeypatch.setenv(HOME, str(tmp_path))
    context = click.Context(nonneg)
    command = nonneg.get_command(context, name)
    assert command is not None
    param = next(param for param in command.params if param.name == taken)
    assert Path(param.type.convert("mini/val", param, context)) == tmp_path / "mini" / "val"
    assert len(list(Path(param.type.convert("digits:test", param, context)).iterdir())) == 10


@pytest.mark.parametrize(("name", "taken"), [("compare", "a"), ("export", "data"), ("curate", "index")])
def test_what_names_other_things_is_taken_as_it_is(name: str, taken: str) -> None:
    command = nonneg.get_command(click.Context(nonneg), name)
    assert command is not None
    assert not isinstance(next(param for param in command.params if param.name == taken).type, OrNamed)


def test_a_named_data_set_is_unpacked_whole_and_once(tmp_path: Path) -> None:
    folder = unpacked("digits:test", tmp_path)
    images = open_data("digits:test")
    files = sorted(folder.rglob("*.png"))
    assert len(files) == len(images) == 359
    for file in files[::40]:
        i = int(file.stem)
        assert file.parent.name == images.classes[images.labels[i]]
        np.testing.assert_array_equal(np.asarray(Image.open(file)), np.asarray(images.image(i)))
    written = [file.stat().st_mtime_ns for file in files]
    assert unpacked("digits:test", tmp_path) == folder
    assert [file.stat().st_mtime_ns for file in files] == written
    assert unpacked("digits", tmp_path) == unpacked("digits:train", tmp_path) != folder


def test_what_a_killed_process_unpacked_of_a_named_data_set_is_removed_by_the_next(tmp_path: Path) -> None:
    place = unpacked("digits:test", tmp_path).parent
    (tmp_path / f".{place.name}.12345678.unfinished").mkdir()
    (place / ".whole").unlink()
    unpacked("digits:test", tmp_path)
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.nightly
def test_a_name_stands_for_a_folder_in_evaluate_and_embed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vectors = str(tmp_path / "digits.npz")
    given = [["embed", "digits:test", "--bundle", "default", "-o", vectors]]
    given += [["evaluate", "digits:test", "--vectors", vectors, "--lengths", "64", "--json"]]
    answers = [CliRunner().invoke(nonneg, arguments, catch_exceptions=False) for arguments in given]
    assert json.loads(answers[1].stdout)["images"] == 359


def test_a_split_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigInvalid, match="digits has no images called val"):
        CliRunner().invoke(nonneg, ["evaluate", "digits:val"], catch_exceptions=False)


def test_paths_and_names_are_completed() -> None:
    taken = OrNamed(click.Path())
    context = click.Context(nonneg)
    param = click.Argument(["data"])
    assert [item.type for item in taken.shell_complete(context, param, "")] == ["file"]
    assert [item.value for item in taken.shell_complete(context, param, "cif")] == ["cifar10", "cifar100", "cif"]


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    answer = CliRunner().invoke(nonneg, ["evaluate", "digits"])
    assert "digits holds no images" in str(answer.exception)
