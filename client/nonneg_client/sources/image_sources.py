"""What may be embedded: paths, globs, folders, tars, URLs, bytes, PIL images, arrays, and iterables of these."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union

from nonneg_client.wire.answer_limits import ReadDeadline
from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_core.files.image_files import find, path_text, read_image
from nonneg_core.pixels.formats import from_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

FETCH_LIMIT = 64 * 2**20
FETCH_SECONDS = 20.0
IN_TAR = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".lz4")  # last suffixes of what may be a tar file
OF_A_TAR = 1000  # images of it that are listed at once


def fetch(url: str) -> bytes:
    """Return the bytes behind a URL, fetched by this process (the server is never asked to)."""
    import httpx

    data = bytearray()
    ending = {"trace": ReadDeadline(FETCH_SECONDS)}
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=FETCH_SECONDS) as client,
            client.stream("GET", url, extensions=ending) as response,
        ):
            if response.status_code != 200:
                raise DataInvalid(f"{url} answers {response.status_code}", fix="check the address", value=url)
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > FETCH_LIMIT:
                    raise DataInvalid(f"{url} is larger than {FETCH_LIMIT} bytes", fix="download it yourself")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DataInvalid(f"{url} cannot be fetched ({error})", fix="check the address", value=url) from error
    return bytes(data)


def lossless(image: Any) -> bytes:
    """Return a PIL image as an upright PNG, so that the server sees the same pixels; the fastest compression."""
    from nonneg_core.pixels.decode import upright, upright_rgb

    # A PNG would lose the orientation that a camera wrote down, and has no CMYK, floats or other spaces of colour.
    image = upright(image) if image.mode in ("L", "LA", "RGB", "RGBA", "I;16", "P", "1") else upright_rgb(image)
    buffer = io.BytesIO()
    try:
        image.save(buffer, format="PNG", compress_level=1)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataInvalid(f"this PIL image cannot be written as PNG ({error})", fix="check the image") from error
    return buffer.getvalue()


def downscaled(data: bytes, side: int) -> bytes:
    """Return the image shrunk so that its short side is `side`, as JPEG: less to send, nearly the same vector."""
    from nonneg_core.pixels.decode import decode

    image = decode(data)
    if min(image.size) <= side:
        return data
    from PIL import Image

    scale = side / min(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    buffer = io.BytesIO()
    image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()


# All of it becomes a stream of `Item`s, each of which can produce the bytes of one image file when its turn comes.

Source: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "Image", "NDArray[np.uint8]", "Item"]
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
    if isinstance(source, Item):  # what has been listed is not listed again
        yield source
    elif isinstance(source, str) and source.startswith(("http://", "https://")):
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
    if path.suffix.lower() not in IN_TAR:
        yield Item(path_text(path), partial(read_image, path), path=path)
        return
    from nonneg_client.bulk.groups import Container, is_tar, of_tar
    from nonneg_vectors.storage.addresses import Address

    if is_tar(str(path)):
        container = Container(Address.of(str(path)), path_text(path))
        yield from chain.from_iterable(group.items() for group in of_tar(container, OF_A_TAR))
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
