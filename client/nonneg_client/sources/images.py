"""What may be embedded: paths, globs, folders, tars, URLs, bytes, PIL images, arrays, and anything that yields these.

All of it becomes a stream of `Item`s, each of which can produce the bytes of one image file when its turn comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, Union

from nonneg_client.sources.loading import fetch, lossless
from nonneg_client.sources.tars import is_tar, members
from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_core.image_files import find, path_text, read_image
from nonneg_core.pixels.arrays import from_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Source: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "Image", "NDArray[np.uint8]"]
ImageSources: TypeAlias = Source | Iterable[Source]


@dataclass(frozen=True)
class Item:
    """One image to come: `load` gives its bytes or raises one of our errors; `picture`, if there, its pixels.

    path: the file, or the tar file, that it is read from. inspect: called with the bytes and their decoded image.
    text: a text in the place of an image, which has nothing to load.
    """

    id: str
    load: Callable[[], bytes]
    picture: Callable[[], Image] | None = None
    path: Path | None = None
    inspect: Callable[[bytes, Image], object] | None = None
    text: str | None = None


def items(sources: ImageSources) -> Iterator[Item]:
    """Yield the images that `sources` stand for, in order; nothing is read before its turn."""
    count = 0
    for source in _flat(sources):
        for item in _expand(source, count):
            yield item
            count += 1


def inputs(images: ImageSources | None, texts: str | Iterable[str] | None) -> Iterator[Item]:
    """Return the images, or the texts in their place, as inputs."""
    if (images is None) == (texts is None):
        raise DataInvalid("embed takes images or texts", fix='give one of them: embed("a.jpg"), embed(texts=["a dog"])')
    return of_texts(texts) if images is None and texts is not None else items(images if images is not None else ())


def of_texts(texts: str | Iterable[str]) -> Iterator[Item]:
    """Yield texts as inputs, each under itself as its id."""
    for text in [texts] if isinstance(texts, str) else texts:
        if not isinstance(text, str):
            raise DataInvalid(f"{text!r} is not a text", fix='give strings: texts=["a dog"]')
        yield Item(text, lambda: b"", text=text)


def _flat(sources: ImageSources) -> Iterator[Source]:
    if isinstance(sources, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_picture(sources):
        yield sources
    elif _is_array(sources):
        yield from sources if getattr(sources, "ndim", 3) == 4 else [sources]
    elif isinstance(sources, Iterable):
        for source in sources:
            if isinstance(source, (list, tuple)):
                raise _unknown(source)
            yield source
    else:
        raise _unknown(sources)


def _expand(source: Source, count: int) -> Iterator[Item]:
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        yield Item(source, lambda: fetch(source))
    elif isinstance(source, str) and source.startswith("data:"):
        raise DataInvalid("a data URI is not a path", fix="decode it and give the bytes", value=source[:40])
    elif isinstance(source, (str, os.PathLike)):
        for path in find(os.fspath(source)):
            yield from _from_file(path)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        yield Item(str(count), lambda: bytes(source))
    elif _is_picture(source):
        yield Item(getattr(source, "filename", "") or str(count), lambda: lossless(source), lambda: source)
    elif _is_array(source):
        yield Item(str(count), lambda: lossless(from_array(source)), lambda: from_array(source))
    else:
        raise _unknown(source)


def _from_file(path: Path) -> Iterator[Item]:
    if is_tar(path):
        yield from (Item(member.id, member.read, path=path) for member in members(path))
    else:
        yield Item(path_text(path), partial(read_image, path), path=path)


def _is_picture(source: object) -> TypeGuard[Image]:
    """Return whether it is a PIL image, without importing Pillow."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(source).__mro__)


def _is_array(source: object) -> TypeGuard[NDArray[np.uint8]]:
    """Return whether it is a numpy array, without importing numpy."""
    return hasattr(source, "dtype") and hasattr(source, "shape") and hasattr(source, "__array__")


def _unknown(source: object) -> NonnegError:
    return DataInvalid(
        f"{type(source).__name__} cannot be embedded",
        fix="give paths, globs, folders, URLs, bytes, PIL images, uint8 arrays, or an iterable of these",
    )
