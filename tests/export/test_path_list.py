"""A list of paths below a folder that takes little memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nonneg_export.calibrate.photo_folder import PathList

PATHS = [Path("photos/a/1.jpg"), Path("photos/a b/ä.jpg"), Path(os.fsdecode(b"photos/\xff.jpg")), Path("photos/z.jpg")]


def test_it_is_the_sequence_of_its_paths() -> None:
    found = PathList(Path("photos"), iter(PATHS))
    assert (len(found), list(found), found[-1], found[1:3]) == (4, PATHS, PATHS[-1], tuple(PATHS[1:3]))
    assert found.name(1) == "a b/ä.jpg".encode()
    with pytest.raises(IndexError):
        found[4]


@pytest.mark.parametrize("folder", [Path(), Path("photos/../photos"), Path("/")])
def test_the_folder_may_be_written_in_any_way(folder: Path) -> None:
    assert list(PathList(folder, [folder / "x" / "y.png"])) == [folder / "x" / "y.png"]
