"""The second tower of a bundle: text as tokens, and tokens through text.onnx to a vector beside the images'."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import BundleInvalid, ParameterInvalid
from nonneg_core.shortening import Vectors
from nonneg_core.terminal.installing import needing
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import TextRecord
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import check_text

TOKENS = "tokens"  # the graph's input: int64 (batch, length)
GOLDEN = "a photo of a dog"  # the text of the self-test
MOST_CHARACTERS = 4096  # of a text, before it is cut into tokens
Tokens = NDArray[np.int64]


class Tokenizer:
    """Text as the numbers of its tokens, as many as the tower takes."""

    def __init__(self, source: Path | str, length: int, pad: int) -> None:
        """Read a file of the package `tokenizers`, or take what such a file holds."""
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
        return ids + [self.pad] * (self.length - len(ids))

    def rows(self, texts: list[str], *, truncate: bool = False) -> Tokens:
        """Return several texts, (batch, length)."""
        return np.array([self.row(text, truncate=truncate) for text in texts], dtype=np.int64)


class TextTower:
    """A bundle's text tower, tested when it is opened; threads may share it."""

    def __init__(self, folder: Path, record: TextRecord) -> None:
        self.tokenizer = Tokenizer(folder / record.tokenizer, record.length, record.pad)
        self._session = Session(folder / record.file, takes=TOKENS)
        check_text(self.embed(GOLDEN, truncate=True), record.golden, f"{folder / record.file}")

    def embed(self, text: str, *, truncate: bool = False) -> Vectors:
        """Return the raw vector of a text, (D,)."""
        return self.run(self.tokens(text, truncate=truncate))

    def tokens(self, text: str, *, truncate: bool = False) -> Tokens:
        """Return a text as the tower takes it, (1, length)."""
        if not text.strip():
            raise ParameterInvalid("the text is empty", fix="name what is to be seen: a dog", field="text", value="")
        return self.tokenizer.rows([text], truncate=truncate)

    def run(self, tokens: Tokens) -> Vectors:
        """Return the raw vector of one text's tokens, (D,)."""
        vectors: Vectors = self._session.run(tokens)[0]
        return vectors


def text_tower(bundle: Bundle) -> TextTower | None:
    """Return the text tower of a bundle, opened once; None where it has none."""
    record = bundle.manifest.text
    if record is None:
        return None
    hashable = record.model_copy(update={"recall": (), "raw": None})
    return _opened(bundle.path, bundle.manifest.digest, hashable)


@lru_cache(maxsize=4)
def _opened(folder: Path, _digest: str, record: TextRecord) -> TextTower:
    return TextTower(folder, record)


def too_long(what: str, value: int, limit: int) -> ParameterInvalid:
    """Return the error of a text of more characters, words or tokens than are read."""
    return ParameterInvalid(
        f"the text has {what}",
        fix=f"give at most {limit}, or ask for truncation",
        field="text",
        value=value,
        limit=limit,
    )


# A served bundle's text tower: opened and tested when it is needed, forgotten when memory is short.


class RestingTextTower:
    """`tower` is there while it is loaded; a bundle that changed since it was first opened is refused."""

    def __init__(self, bundle: Bundle) -> None:
        self.tower: TextTower | None = None
        self._bundle = bundle
        self._opened_before = False
        self._opening = threading.Lock()

    @property
    def weight(self) -> int:
        """Bytes of weights that it holds while it is loaded."""
        record = self._bundle.manifest.text
        return 0 if record is None or self.tower is None else self._bundle.manifest.files[record.file].bytes

    def rest(self) -> None:
        """Forget the weights; the next text loads them again."""
        self.tower = None

    def opened(self, check_unchanged: Callable[[], None]) -> tuple[TextTower | None, bool]:
        """Return the tower, None where the bundle has none; and whether it was opened only now."""
        record, tower = self._bundle.manifest.text, self.tower
        if record is None or tower is not None:
            return tower, False
        with self._opening:
            if self.tower is not None:
                return self.tower, False
            if self._opened_before:
                check_unchanged()
            tower = self.tower = TextTower(self._bundle.path, record)
            self._opened_before = True
        return tower, True
