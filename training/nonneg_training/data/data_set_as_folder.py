"""A named data set as a folder of images, a folder a class: for commands that take a folder."""

import os
import shutil
from pathlib import Path

from nonneg_core.files.atomic import begun, remove_abandoned, storage_error
from nonneg_core.files.user_cache import cache_folder
from nonneg_training.data import Images, open_data

DONE = ".whole"


def unpacked(name: str, folder: Path | None = None) -> Path:
    """Return the folder of `digits`, `cifar10:test`, ...: written once, as PNG, below the user's cache."""
    images = open_data(name)
    title = name.replace(":", "-") if ":" in name else f"{name}-train"
    target = (folder or cache_folder("named")) / f"{title}-{images.digest()[:12]}" / title
    if not (target.parent / DONE).exists():
        try:
            _write(images, target)
        except OSError as error:
            raise storage_error(target, error) from error
    return target


def _write(images: Images, target: Path) -> None:
    """Write all of it or nothing: into a folder beside it, which then takes its name."""
    home = target.parent.parent
    home.mkdir(parents=True, exist_ok=True)
    work, handle = begun(target.parent, folder=True)
    try:
        inside = work / target.name
        for name in images.classes:
            (inside / _plain(name)).mkdir(parents=True)
        for i, label in enumerate(images.labels.tolist()):
            images.image(i).save(inside / _plain(images.classes[label]) / f"{i:05}.png")
        (work / DONE).touch()
        shutil.rmtree(target.parent, ignore_errors=True)
        work.replace(target.parent)
        remove_abandoned(target.parent)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(work, ignore_errors=True)


def _plain(name: str) -> str:
    """Return a class as a folder can be called."""
    return name.replace("/", "-")
