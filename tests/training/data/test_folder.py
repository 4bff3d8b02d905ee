"""A folder of images: classes by folder, broken ones skipped, counted and named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_training.data import ImageFolder, open_data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, colour in (("cat", 40), ("dog", 200)):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(np.full((20, 30, 3), colour + i, np.uint8)).save(tmp_path / name / f"{i}.png")
    return tmp_path


def test_a_folder_a_class(root: Path) -> None:
    images = open_data(str(root))
    assert images.classes == ("cat", "dog")
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.image(4).getpixel((0, 0)) == (201, 201, 201)


def test_a_link_back_is_not_followed(root: Path) -> None:
    (root / "cat" / "back").symlink_to(root)
    assert open_data(str(root)).labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_two_folders_linked_into_each_other_are_each_followed_once(root: Path) -> None:
    (root / "cat" / "dogs").symlink_to(root / "dog")
    (root / "dog" / "cats").symlink_to(root / "cat")
    assert open_data(str(root)).labels.tolist() == [0] * 6 + [1] * 6


def test_a_pipe_a_socket_and_a_link_to_one_are_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "cat" / "pipe.png")
    (root / "dog" / "link.png").symlink_to(root / "cat" / "pipe.png")
    monkeypatch.chdir(root)  # a socket's name has to be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("dog/socket.png")
    images = open_data(str(root))
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_train_folder_inside_is_the_training_split(root: Path) -> None:
    inner = root / "train"
    inner.mkdir()
    (root / "cat").rename(inner / "cat")
    assert open_data(str(root)).classes == ("cat",)


def test_a_broken_image_is_skipped_counted_and_named(root: Path) -> None:
    (root / "cat" / "1.png").write_bytes(b"not an image")
    images = ImageFolder(root)
    assert images.image(1).getpixel((0, 0)) == (42, 42, 42)
    assert list(images.broken) == ["cat/1.png"]


def test_more_broken_images_than_allowed_stop_the_run(root: Path) -> None:
    for i in range(3):
        (root / "cat" / f"{i}.png").write_bytes(b"not an image")
    images = ImageFolder(root, max_broken=2)
    with pytest.raises(DataInvalid, match=r"more than 2 broken images.*cat/0\.png"):
        images.image(0)


@pytest.mark.parametrize("made", [True, False])
def test_an_empty_or_absent_folder_is_refused(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "images"
    if made:
        folder.mkdir()
    with pytest.raises(DataInvalid, match="holds no images" if made else "does not exist"):
        ImageFolder(folder)


def test_a_file_of_another_kind_is_not_called_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "train.tar.gz").write_bytes(b"")
    with pytest.raises(DataInvalid, match=r"is a file of no kind .*or \.tar shards, not compressed"):
        open_data(str(tmp_path / "train.tar.gz"))


def test_a_folder_is_searched_for_what_the_decoder_reads(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    wanted = {tmp_path / "cat" / f"a{suffix}" for suffix in OF_IMAGES}
    for path in (*wanted, tmp_path / "cat" / "b.ppm", tmp_path / "cat" / "b.jp2"):
        path.write_bytes(b"")
    assert set(ImageFolder(tmp_path).paths) == wanted
