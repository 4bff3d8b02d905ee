"""Images out of a tar that arrives from front to back, and their order once some of them wait to be drawn."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_core.tar_members import sample_of
from nonneg_training.data.download import Download

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
