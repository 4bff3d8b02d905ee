"""lexicon.json: the words that a model knows, and the dimensions that each stands for. Written and read here."""

import json
import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nonneg_core.errors import BundleInvalid, DataInvalid
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import read_manifest

LEXICON = "lexicon.json"
MOST_BYTES = 2_000_000  # of the file: it is read with the bundle
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Class(_Record):
    """A class of the model's classifier, as a weighting of dimensions."""

    wnid: str
    dimensions: tuple[int, ...] = Field(min_length=1)
    weights: tuple[int, ...] = Field(min_length=1)


class Lexicon(_Record):
    """Words by what they mean: a class by its number, or, counted on from the classes, a group of them."""

    format: Literal["nonneg-lexicon-1"] = "nonneg-lexicon-1"
    dimensions: int = Field(ge=1)
    source: str
    classes: tuple[Class, ...]
    groups: tuple[tuple[int, ...], ...]
    words: dict[str, int]

    @model_validator(mode="after")
    def _consistent(self) -> "Lexicon":
        for each in self.classes:
            if len(each.dimensions) != len(each.weights) or max(each.dimensions) >= self.dimensions:
                raise ValueError(f"the dimensions of {each.wnid} do not fit")
            if min(each.dimensions) < 0 or min(each.weights) < 1:
                raise ValueError(f"{each.wnid} has a number that is too small")
        if any(not 0 <= number < len(self.classes) for group in self.groups for number in group):
            raise ValueError("a group names a class that is not there")
        if any(not 0 <= meaning < len(self.classes) + len(self.groups) for meaning in self.words.values()):
            raise ValueError("a word means what is not there")
        return self

    @cached_property
    def longest(self) -> int:
        """The parts of the longest word."""
        return max((word.count(" ") + 1 for word in self.words), default=0)

    def members(self, word: str) -> tuple[int, ...]:
        """Return the classes that a word stands for."""
        meaning = self.words[word]
        return (meaning,) if meaning < len(self.classes) else self.groups[meaning - len(self.classes)]

    def vector(self, word: str) -> Vectors:
        """Return a word's vector of length one, (dimensions,): the sum of its classes', each of length one."""
        total = np.zeros(self.dimensions, dtype=np.float32)
        for number in self.members(word):
            klass = self.classes[number]
            total[list(klass.dimensions)] += unit(np.array(klass.weights, dtype=np.float32))
        return unit(total)

    def own(self, word: str) -> list[int]:
        """Return the dimensions that stand for a word's classes alone: columns of their own; none where it has none."""
        columns = [self.classes[number].dimensions for number in self.members(word)]
        return sorted(dimensions[0] for dimensions in columns if len(dimensions) == 1)

    def write(self, path: Path) -> None:
        """Write it as JSON, a class, a group and a word a line; raise DataInvalid where that is too long a file."""
        head = {"format": self.format, "dimensions": self.dimensions, "source": self.source}
        classes = [json.dumps(each.model_dump(mode="json"), separators=(",", ":")) for each in self.classes]
        groups = [json.dumps(group, separators=(",", ":")) for group in self.groups]
        words = [f"{json.dumps(word)}:{meaning}" for word, meaning in self.words.items()]
        parts = [
            json.dumps(head, indent=1)[:-2],
            ' "classes": [\n' + ",\n".join(classes) + "\n ]",
            ' "groups": [\n' + ",\n".join(groups) + "\n ]",
            ' "words": {\n' + ",\n".join(words) + "\n }\n}\n",
        ]
        written = ",\n".join(parts).encode()
        if len(written) > MOST_BYTES:
            raise DataInvalid(
                f"a lexicon of {len(self.words)} words and {len(self.classes)} classes takes {len(written)} bytes",
                fix=f"leave words out, or the smallest weights of classes: {MOST_BYTES} bytes at most",
                field="lexicon",
                value=len(written),
                limit=MOST_BYTES,
            )
        path.write_bytes(written)


def spelled(text: str) -> str:
    """Return a text as words are looked up: its letters and digits, in lower case, with single spaces."""
    return " ".join(_TOKEN.findall(text.casefold()))


def lexicon_of(bundle: Bundle) -> Lexicon | None:
    """Return the words that a bundle's model knows; None where it has no lexicon."""
    return _read(bundle.path, bundle.manifest.digest)


@lru_cache(maxsize=8)
def _read(folder: Path, _digest: str) -> Lexicon | None:
    manifest = read_manifest(folder)
    if manifest.lexicon is None:
        return None
    return read_lexicon(folder / manifest.lexicon.file, manifest.dimensions)


def read_lexicon(path: Path, dimensions: int) -> Lexicon:
    """Return the lexicon in a file, which must be of a model with so many dimensions."""
    try:
        lexicon = Lexicon.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BundleInvalid(f"{path} holds no lexicon ({error})", fix="copy or export the bundle again") from error
    if lexicon.dimensions != dimensions:
        raise BundleInvalid(
            f"{path} is of a model with {lexicon.dimensions} dimensions, not {dimensions}",
            fix="take the file that was exported with this bundle",
            field="lexicon",
            value=lexicon.dimensions,
            limit=dimensions,
        )
    return lexicon
