"""The second tower of a bundle: text as tokens, and tokens to a vector beside the images'.

A model of two towers has text.onnx. A model of photos has a linear map from sentences to what its head takes. Before
the map stands an encoder of sentences, which lies once in the package. So every head on a backbone makes a text's
columns as it makes a photo's.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import BundleInvalid, CheckFailed, ParameterInvalid
from nonneg_core.files import safetensors_file
from nonneg_core.shortening import Vectors, unit
from nonneg_core.terminal.installing import needing
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, record_of
from nonneg_runtime.bundle.head_file import read_head, read_spread
from nonneg_runtime.bundle.manifest import Manifest, SentenceRecord, TextRecord, read_manifest
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import check_text

TOKENS = "tokens"  # the graph's input: int64 (batch, length)
WORD = "a photo of a {}"  # what a word alone is read as
GOLDEN = "a photo of a dog"  # the text of the self-test
MOST_CHARACTERS = 4096  # of a text, before it is cut into tokens
Tokens = NDArray[np.int64]


def check_tokenizers() -> None:
    """Raise MissingExtra where texts cannot be cut into tokens; does not import what cuts them."""
    with needing("text", extra="text"):
        if find_spec("tokenizers") is None:
            raise ModuleNotFoundError(name="tokenizers")


class Tokenizer:
    """Text as the numbers of its tokens, as many as the tower takes."""

    def __init__(self, source: Path | str, length: int, pad: int | None) -> None:
        """Read a file of the package `tokenizers`, or take what such a file holds; pad None: texts stay as long."""
        with needing("text", extra="text"):
            from tokenizers import Tokenizer as Library
        self.length, self.pad = length, pad
        try:
            written = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
            self._whole: Any = Library.from_str(written)
            self._cut: Any = Library.from_str(written)
        except Exception as error:  # the library raises Exception itself
            name = source if isinstance(source, Path) else "this"
            raise BundleInvalid(f"{name} is not a tokenizer ({error})", fix="export the bundle again") from error
        for tokenizer in (self._whole, self._cut):
            tokenizer.no_padding()
            tokenizer.no_truncation()
        self._cut.enable_truncation(length)

    @property
    def largest(self) -> int:
        """The largest number that it gives."""
        return max(self._whole.get_vocab(with_added_tokens=True).values(), default=0)

    def ids(self, text: str) -> list[int]:
        """Return all tokens of a text, however many."""
        tokens: list[int] = self._whole.encode(text).ids
        return tokens

    def row(self, text: str, *, truncate: bool = False) -> list[int]:
        """Return one text, padded; a text that is too long is refused, or cut if that is asked for."""
        if len(text) > MOST_CHARACTERS and not truncate:
            raise too_long(f"{len(text)} characters", len(text), MOST_CHARACTERS)
        ids = self.ids(text[:MOST_CHARACTERS])
        if len(ids) > self.length:
            if not truncate:
                raise too_long(f"{len(ids)} tokens", len(ids), self.length)
            ids = self._cut.encode(text[:MOST_CHARACTERS]).ids
        return ids if self.pad is None else ids + [self.pad] * (self.length - len(ids))

    def rows(self, texts: list[str], *, truncate: bool = False) -> Tokens:
        """Return several texts, (batch, length)."""
        return np.array([self.row(text, truncate=truncate) for text in texts], dtype=np.int64)


class Tower(ABC):
    """What makes a text's vector; threads may share it."""

    tokenizer: Tokenizer

    def embed(self, text: str, *, truncate: bool = False) -> Vectors:
        """Return the raw vector of a text, (D,)."""
        return self.run(self.tokens(text, truncate=truncate))

    def tokens(self, text: str, *, truncate: bool = False) -> Tokens:
        """Return a text as the tower takes it, (1, length)."""
        if not text.strip():
            raise ParameterInvalid("the text is empty", fix="name what is to be seen: a dog", field="text", value="")
        return self.tokenizer.rows([text], truncate=truncate)

    @abstractmethod
    def run(self, tokens: Tokens) -> Vectors:
        """Return the raw vector of one text's tokens, (D,)."""


class TextTower(Tower):
    """A bundle's own text tower, tested when it is opened."""

    def __init__(self, folder: Path, record: TextRecord) -> None:
        self.tokenizer = Tokenizer(folder / record.tokenizer, record.length, record.pad)
        self._session = Session(folder / record.file, takes=TOKENS)
        check_text(self.embed(GOLDEN, truncate=True), record.golden, f"{folder / record.file}")

    def run(self, tokens: Tokens) -> Vectors:
        """Return the raw vector of one text's tokens, (D,)."""
        vectors: Vectors = self._session.run(tokens)[0]
        return vectors


def text_tower(bundle: Bundle) -> Tower | None:
    """Return the text tower of a bundle, opened once; None where it has none."""
    return _opened(bundle.path, bundle.manifest.digest) if bundle.manifest.takes_texts else None


@lru_cache(maxsize=4)
def _opened(folder: Path, _digest: str) -> Tower:
    return _open(folder, read_manifest(folder))


def _open(folder: Path, manifest: Manifest) -> Tower:
    return SentenceTower(folder, manifest) if manifest.text is None else TextTower(folder, manifest.text)


def too_long(what: str, value: int, limit: int) -> ParameterInvalid:
    """Return the error of a text of more characters, words or tokens than are read."""
    return ParameterInvalid(
        f"the text has {what}",
        fix=f"give at most {limit}, or ask for truncation",
        field="text",
        value=value,
        limit=limit,
    )


# Sentences for a model of photos: the encoder is frozen, and lies in the package beside the models.

PLACE = SHIPPED / "text"
ENCODER, TOKENIZER = "encoder.onnx", "tokenizer.json"  # takes one text alone: a number's rounding depends on the others
MAP = "sentences.safetensors"
HEAD_OF_SENTENCES = "sentences.head.safetensors"  # where the encoder's graph holds its head within
MAP_FORMAT = "nonneg-sentences-1"
MOST_TOKENS, WIDTH = 64, 384
POWER = 0.8  # of a text's columns; from .6 to 1 as many captions find their photos
LEAST_COSINE = 0.98  # to the recorded answer: processors round to 8 bits differently
Row = NDArray[np.float32]


class SentenceEncoder:
    """A sentence's vector, of length one."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(PLACE / TOKENIZER, MOST_TOKENS, None)
        self._session = Session(PLACE / ENCODER, takes=TOKENS)

    def run(self, tokens: Tokens) -> Row:
        """Return the vector of one text's tokens, (384,)."""
        vector: Row = self._session.run(tokens)[0]
        return vector


@dataclass(frozen=True, eq=False)
class SentenceMap:
    """From a sentence's vector to what a head takes."""

    weight: Row  # (384, features)
    bias: Row  # (features,)
    mean: Row  # (features,) of photos
    reach: float  # how far from the mean a text lies
    golden: Row  # (features,) the direction of the text of the self-test

    def direction(self, sentence: Row) -> Row:
        """Return in which direction from the mean a sentence lies, (features,), of length one."""
        return unit(sentence @ self.weight + self.bias)

    def write(self, path: Path) -> None:
        """Write it, its larger arrays as float16."""
        wide = {"bias": self.bias, "mean": self.mean}
        half = {"weight": self.weight, "golden": self.golden}
        arrays = {n: a.astype(np.float32) for n, a in wide.items()} | {n: a.astype(np.float16) for n, a in half.items()}
        safetensors_file.write(path, arrays, {"format": MAP_FORMAT, "reach": f"{self.reach:.6g}"})


def read_map(path: Path) -> SentenceMap:
    """Return the map in a file."""
    try:
        arrays, _, metadata = safetensors_file.read(path)
        weight, bias, mean, golden = (np.array(arrays[n], np.float32) for n in ("weight", "bias", "mean", "golden"))
        if metadata["format"] != MAP_FORMAT or not weight.shape[1:] == bias.shape == mean.shape == golden.shape:
            raise ValueError("its arrays do not fit each other")
        return SentenceMap(weight, bias, mean, float(metadata["reach"]), golden)
    except (OSError, ValueError, KeyError) as error:
        raise BundleInvalid(f"{path} holds no map of sentences ({error})", fix="copy the bundle again") from error


class SentenceTower(Tower):
    """A bundle's map behind the sentence encoder, and its head behind the map; tested when it is opened."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        record = manifest.sentences
        assert record is not None
        _check_place(record, folder)
        self._encoder, self._map, self._head = (
            SentenceEncoder(),
            read_map(folder / record.file),
            replace(read_head(folder / record.head), power=POWER),
        )
        self._spread = folder / manifest.head.spread if manifest.head and manifest.head.spread else None
        self.tokenizer = self._encoder.tokenizer
        cosine = float(self._direction(self.tokens(GOLDEN)) @ unit(self._map.golden))
        if not cosine >= LEAST_COSINE:
            raise CheckFailed(
                f"the sentences of {folder} fail their self-test: cosine {cosine:.4f}, less than {LEAST_COSINE}",
                fix="reinstall onnxruntime and nonneg",
                value=cosine,
                limit=LEAST_COSINE,
            )

    def tokens(self, text: str, *, truncate: bool = False) -> Tokens:
        """Return a text as the encoder takes it; a word alone as the sentence that names it, which finds more."""
        word = text.strip()
        return super().tokens(WORD.format(word) if word.isalpha() else text, truncate=truncate)

    def run(self, tokens: Tokens) -> Vectors:
        """Return the columns of one text's tokens, (D,)."""
        return self._columns(self._direction(tokens))

    def beside(self, weights: Vectors) -> Vectors:
        """Return the columns of photos that vary as these columns do: what a class has beside its own column."""
        direction: Row = self._head.weight @ weights  # (features,)
        return self._columns(unit(direction if self._covariance is None else self._covariance @ direction))

    def _direction(self, tokens: Tokens) -> Row:
        return self._map.direction(self._encoder.run(tokens))

    def _columns(self, direction: Row) -> Vectors:
        features = self._map.mean + np.float32(self._map.reach) * direction
        return self._head.embed(features)

    @cached_property
    def _covariance(self) -> Row | None:
        return None if self._spread is None else read_spread(self._spread).covariance.astype(np.float32)


def _check_place(record: SentenceRecord, folder: Path) -> None:
    """Raise BundleInvalid unless the package holds the encoder and the tokenizer that a map was fitted behind."""
    for name, digest in ((ENCODER, record.encoder), (TOKENIZER, record.tokenizer)):
        path = PLACE / name
        digest_here = record_of(path).sha256 if path.is_file() else "not there"
        if digest_here != digest:
            raise BundleInvalid(
                f"the sentences of {folder} need {name} of sha256 {digest}; {path} is {digest_here}",
                fix="install the version of nonneg that the bundle was made with",
                field="sentences",
                value=digest_here,
            )


# A served bundle's text tower: opened and tested when it is needed, forgotten when memory is short.


class RestingTextTower:
    """`tower` is there while it is loaded; a bundle that changed since it was opened is refused."""

    def __init__(self, bundle: Bundle) -> None:
        self.tower: Tower | None = None
        self._bundle = bundle
        self._opening = threading.Lock()

    @property
    def weight(self) -> int:
        """Bytes of weights that it holds while it is loaded."""
        if self.tower is None:
            return 0
        own = self._bundle.manifest.text
        return (PLACE / ENCODER).stat().st_size if own is None else self._bundle.manifest.files[own.file].bytes

    def rest(self) -> None:
        """Forget the weights; the next text loads them again."""
        self.tower = None

    def opened(self, check_unchanged: Callable[[], None]) -> tuple[Tower | None, bool]:
        """Return the tower, None where the bundle has none; and whether it was opened only now."""
        tower = self.tower
        if tower is not None or not self._bundle.manifest.takes_texts:
            return tower, False
        with self._opening:
            if self.tower is not None:
                return self.tower, False
            check_unchanged()  # the first text may come long after the bundle was opened
            tower = self.tower = _open(self._bundle.path, self._bundle.manifest)
        return tower, True
