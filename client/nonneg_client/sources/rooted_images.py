"""Which image is which, by its path within a root folder, and which of an index could not be read.

The root is the folder that was named, or what all named folders and files have in common. It is kept with the vectors,
so that a later run, an evaluation or a search finds the same images again. What lies outside of the root has its
absolute path as its id; a URL is its own.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from nonneg_client.bulk.listing import Sources, common_folder, groups
from nonneg_client.sources.image_sources import Item
from nonneg_core.errors import ConfigInvalid, NonnegError
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.image_files import Stamp, is_url


def root_of(names: Sequence[str]) -> Path:
    """Return the folder that these paths, folders and globs have in common; the current one if all are URLs."""
    return common_folder(names)


def rooted(names: Iterable[str], root: Path) -> Iterator[Item]:
    """Yield the images that the names stand for, with their paths within the root as ids; none is read yet."""
    sources = Sources(tuple(names), LISTED, within=str(root), apart=False)
    return chain.from_iterable(group.items() for group in groups(sources))


def covered(names: Iterable[str], root: Path) -> Callable[[str], bool]:
    """Return whether an id lies within one of the named folders: if it does and was not found, it is gone."""
    folders = [Path(os.path.realpath(name)) for name in names if not is_url(name) and Path(name).is_dir()]
    return lambda name: not is_url(name) and any((root / name).is_relative_to(folder) for folder in folders)


def kept_root(root: str, names: Sequence[str], made: object) -> Path:
    """Return the root that is kept with vectors; raises if it is gone and the images seem to be somewhere else now."""
    path = Path(root)
    if not path.is_dir() and not all(map(is_url, names)) and not root_of(names).is_relative_to(path):
        raise ConfigInvalid(
            f"{made} was made of images in {root}, which is not there any more",
            fix="pass --root with the folder that they are in now",
            field="root",
            value=root,
        )
    return path


# broken.json in an index's folder: images that could not be read, not tried again until their files change.

FILE = "broken.json"
LISTED = 1000  # images of a group, which are listed together


def is_broken(error: NonnegError) -> bool:
    """Return whether an error says something of the image, and not of a server or a network."""
    return error.type.startswith("image_")


def read_broken(index: Path) -> dict[str, Stamp]:
    """Return the images, with each one's size and time of the last change; none where the list is damaged."""
    try:
        stamps = json.loads((index / FILE).read_text(encoding="utf-8"))
        return {str(name): (int(size), int(changed)) for name, (size, changed) in stamps.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_broken(index: Path, broken: Mapping[str, Stamp]) -> None:
    """Keep the list, or remove it where it is empty."""
    if not broken:
        (index / FILE).unlink(missing_ok=True)
        return
    with atomic_write(index / FILE) as temporary:
        temporary.write_text(json.dumps(broken), encoding="utf-8")
