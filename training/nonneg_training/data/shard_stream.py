"""Tar shards behind http(s), read once an epoch from front to back: for what does not fit a disk."""

import io
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, islice
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image

from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, NonnegError
from nonneg_core.files.image_files import sample_of
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_training.data.images import BrokenImages, Images
from nonneg_training.data.tar_shards import expand
from nonneg_training.setup.batch_order import derive, permutation
from nonneg_training.setup.process_group import ProcessGroup

CHUNK = 2**18
ATTEMPTS = 6  # in a row without a single byte
PAUSE = 0.5  # seconds before the second attempt, twice as long before each further one
LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Sample:
    """An image as it came, and its label."""

    name: str
    data: bytes
    label: int


def samples(file: "Download") -> Iterator[Sample]:
    """Yield key.jpg with the key.cls beside it, before or behind."""
    key, image, label = "", b"", 0
    try:
        with file, tarfile.open(fileobj=file, mode="r|", bufsize=CHUNK) as tar:
            for info in tar:
                of, suffix = sample_of(info.name)
                if of != key:
                    if image:
                        yield Sample(f"{file.name}:{key}", image, label)
                    key, image, label = of, b"", 0
                content = tar.extractfile(info) if info.isfile() else None
                if content and f".{suffix}" in OF_IMAGES:
                    image = content.read()
                elif content and suffix == "cls":
                    label = int(content.read())
            if image:
                yield Sample(f"{file.name}:{key}", image, label)
    except (tarfile.TarError, ValueError) as error:
        raise DataInvalid(
            f"{file.name} is not a whole tar file ({error})", fix="write it again", value=file.name
        ) from error


def shuffled(every: Iterator[Sample], hold: int, rng: np.random.Generator) -> Iterator[Sample]:
    """Yield all of them, each drawn from up to `hold` that wait."""
    waiting: list[Sample] = []
    for sample in every:
        if len(waiting) < hold:
            waiting.append(sample)
            continue
        chosen = int(rng.integers(hold))
        yield waiting[chosen]
        waiting[chosen] = sample
    yield from (waiting[i] for i in rng.permutation(len(waiting)))


# Everything follows from (seed, epoch, rank): the order of the shards, which of them are this rank's, and the draws
# of the shuffle buffer. A run that goes on in the middle of an epoch reads that epoch again up to where it was,
# without decoding.

SCHEMES = ("http://", "https://")


class ShardStream:
    """`images` an epoch out of these shards; `classes` labels if they matter."""

    side = None

    def __init__(
        self,
        pattern: str,
        images: int | None,
        *,
        classes: int | None = None,
        shuffle: int = 1000,
        max_broken: int = 100,
        pause: float = PAUSE,
    ) -> None:
        self.name, self.urls, self.shuffle, self.pause = shown(pattern), expand(pattern), shuffle, pause
        self.tolerance = BrokenImages(self.name, max_broken)
        if images is None:
            raise ConfigInvalid(
                f"{self.name} is streamed and not counted first",
                fix="say how many images an epoch has: --set data.images=1281167",
                field="data.images",
            )
        self._images = images
        self.classes = tuple(str(label) for label in range(classes or 1))
        self.labelled = classes is not None
        self._client = httpx.Client(timeout=TIMEOUT, follow_redirects=True)

    def __len__(self) -> int:
        return self._images

    @property
    def broken(self) -> dict[str, str]:
        return self.tolerance.broken

    def epoch(self, seed: int, epoch: int, world: ProcessGroup) -> Iterator[Sample]:
        """Yield this rank's images of an epoch; where its shards hold fewer than it needs, they begin again."""
        if len(self.urls) < world.size:
            raise ConfigInvalid(
                f"{len(self.urls)} shards cannot be shared by {world.size} processes",
                fix="write more and smaller shards",
                field="data.source",
                value=len(self.urls),
            )
        for turn in count():
            order = permutation(len(self.urls), seed, "shards", epoch, turn)[world.rank :: world.size]
            rng = np.random.default_rng(derive(seed, "buffer", epoch, turn, world.rank))
            yield from shuffled((sample for i in order for sample in self.shard(self.urls[i])), self.shuffle, rng)

    def shard(self, url: str) -> Iterator[Sample]:
        """Yield the images of one shard, in its order; labels outside the classes are refused."""
        empty = True
        for sample in samples(Download(url, self._client, pause=self.pause)):
            if self.labelled and not 0 <= sample.label < len(self.classes):
                raise DataInvalid(
                    f"{sample.name} has the label {sample.label}, and data.classes is {len(self.classes)}",
                    fix="raise data.classes",
                    field="data.classes",
                    value=sample.label,
                )
            empty = False
            yield sample
        if empty:
            raise DataInvalid(
                f"{shown(url)} holds no images", fix="write them as key.jpg and key.cls", value=shown(url)
            )

    def picture(self, batch: list[Sample], i: int) -> tuple[Image.Image, int]:
        """Sample i and its label; in place of a broken one the next of these that can be read."""
        read = [i]

        def decoded(j: int) -> Image.Image:
            read[0] = j
            return decode(batch[j].data)

        image = self.tolerance.first(i, len(batch), lambda j: batch[j].name, decoded)
        return image, batch[read[0]].label

    def first(self, most: int) -> "SampledImages":
        """Return the first images of the first shards, kept in memory: what readings look at."""
        every = (sample for url in self.urls for sample in self.shard(url))
        return SampledImages(self, list(islice(every, most)))


class SampledImages(Images):
    """A few samples as they came; broken ones are left out."""

    def __init__(self, stream: ShardStream, candidates: list[Sample]) -> None:
        self.name, self.classes = stream.name, stream.classes
        self.samples = [sample for sample in candidates if _readable(sample)]
        if not self.samples:
            raise DataInvalid(f"no image of {self.name} can be read", fix="check the shards", value=self.name)
        self.labels = np.asarray([max(0, sample.label) for sample in self.samples], dtype=np.int64)

    def image(self, i: int) -> Image.Image:
        return decode(self.samples[i].data)

    def digest(self) -> str:
        raise NotImplementedError("features of a stream are not cached")


def _readable(sample: Sample) -> bool:
    try:
        decode(sample.data)
    except NonnegError:
        return False
    return True


# The bytes at an http(s) address, in order; where the connection breaks off, it is taken up again.

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
PASSING = {408, 425, 429, 500, 502, 503, 504}  # what a server may answer now and not in a while


class ConnectionBroken(Exception):
    """This connection is of no further use, another one may be."""


class Download(io.RawIOBase):
    """A file to be read once from front to back."""

    def __init__(self, url: str, client: httpx.Client, *, pause: float = PAUSE) -> None:
        super().__init__()
        self.url, self.name = url, shown(url)
        self._client, self._pause = client, pause
        self._at, self._length, self._mark = 0, None, ""  # type: tuple[int, int | None, str]
        self._open, self._rest = ExitStack(), b""
        self._chunks: Iterator[bytes] | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; none at the end."""
        if not self._rest:
            self._rest = self._next()
        most = len(self._rest) if size is None or size < 0 else size
        chunk, self._rest = self._rest[:most], self._rest[most:]
        return chunk

    def close(self) -> None:
        self._open.close()
        super().close()

    def _next(self) -> bytes:
        """Return the next chunk, from this connection or the next."""
        for attempt in range(ATTEMPTS):
            try:
                if self._chunks is None:
                    self._chunks = self._connect()
                chunk = next(self._chunks, b"")
                self._at += len(chunk)
                if not chunk and self._length not in (None, self._at):
                    raise ConnectionBroken(f"ended at byte {self._at} of {self._length}")
                return chunk
            except (httpx.TransportError, ConnectionBroken) as error:
                reason = str(error) or type(error).__name__
                self._open.close()
                self._chunks = None
                if attempt < ATTEMPTS - 1:
                    time.sleep(min(LONGEST_PAUSE, self._pause * 2**attempt))
        raise ConnectionFailed(
            f"{self.name} broke off at byte {self._at}, {ATTEMPTS} times in a row ({reason})",
            fix="see whether the server is there; --resume goes on with the run",
            value=self.name,
        )

    def _connect(self) -> Iterator[bytes]:
        headers = {"Accept-Encoding": "identity"}
        if self._at:
            headers |= {"Range": f"bytes={self._at}-"} | ({"If-Range": self._mark} if self._mark else {})
        response = self._open.enter_context(self._client.stream("GET", self.url, headers=headers))
        if response.status_code in PASSING:
            raise ConnectionBroken(f"status {response.status_code}")
        if response.status_code not in (200, 206):
            raise DataInvalid(
                f"{self.name} cannot be had: the server answered {response.status_code}",
                fix="check the address and the rights to it",
                value=self.name,
            )
        chunks = response.iter_raw()  # as they arrive: of a fixed size, the last one before a break would be lost
        self._check_same(response)
        if response.status_code == 206:
            return chunks
        return _behind(chunks, self._at)  # a server that knows no ranges: read what we have once more

    def _check_same(self, response: httpx.Response) -> None:
        """Refuse a second half that does not belong to the first."""
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        partial = response.status_code == 206
        stated = response.headers.get("Content-Range", "").rpartition("/")[2] if partial else None
        length = stated or response.headers.get("Content-Length")
        size = int(length) if length and length.isdigit() else None
        if self._at and (mark, size) != (self._mark, self._length):
            raise DataInvalid(
                f"{self.name} changed while it was read", fix="start the run again when it is whole", value=self.name
            )
        if partial and not response.headers.get("Content-Range", "").startswith(f"bytes {self._at}-"):
            raise ConnectionBroken("another range than the one asked for")
        self._mark, self._length = mark, size


def shown(url: str) -> str:
    """Return the address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _behind(chunks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    for chunk in chunks:
        rest = chunk[skip:]
        skip = max(0, skip - len(chunk))
        if rest:
            yield rest
