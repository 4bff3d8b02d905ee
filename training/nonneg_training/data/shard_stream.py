"""Tar shards behind http(s), read once an epoch from front to back: for what does not fit a disk."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import httpx
import numpy as np
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.files.image_files import sample_of
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_training.data.images import BrokenImages, Images
from nonneg_training.data.resumed_download import PAUSE, TIMEOUT, Download, shown
from nonneg_training.data.tar_shards import expand
from nonneg_training.setup.batch_order import derive, permutation
from nonneg_training.setup.process_group import ProcessGroup

CHUNK = 2**18


@dataclass(frozen=True)
class Sample:
    """An image as it came, and its label."""

    name: str
    data: bytes
    label: int


def samples(file: Download) -> Iterator[Sample]:
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

    def first(self, most: int) -> SampledImages:
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
