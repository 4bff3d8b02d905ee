"""The second tower of a bundle: text as tokens, and tokens through text.onnx to a vector beside the images'."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import BundleInvalid, MissingExtra, ParameterInvalid
from nonneg_core.installing import extra_hint
from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.golden import check_text
from nonneg_runtime.manifest import TextRecord
from nonneg_runtime.session import Session

TOKENS = "tokens"  # the graph's input: int64 (batch, length)
GOLDEN = "a photo of a dog"  # the text of the self-test
MOST_CHARACTERS = 4096  # of a text, before it is cut into tokens
Tokens = NDArray[np.int64]


class Tokenizer:
    """Text as the numbers of its tokens, as many as the tower takes."""

    def __init__(self, path: Path, length: int, pad: int) -> None:
        try:
            from tokenizers import Tokenizer as Library
        except ModuleNotFoundError:
            raise MissingExtra("text needs the package tokenizers", fix=extra_hint("text")) from None
        self.length, self.pad = length, pad
        try:
            self._whole: Any = Library.from_file(str(path))
            self._cut: Any = Library.from_file(str(path))
        except Exception as error:  # the library raises Exception itself
            raise BundleInvalid(f"{path} is not a tokenizer ({error})", fix="export the bundle again") from error
        for tokenizer in (self._whole, self._cut):
            tokenizer.no_padding()
            tokenizer.no_truncation()
        self._cut.enable_truncation(length)

    @property
    def largest(self) -> int:
        """The largest number that it gives."""
        return max(self._whole.get_vocab(with_added_tokens=True).values(), default=0)

    def ids(self, text: str) -> list[int]:
        """All tokens of a text, however many."""
        found: list[int] = self._whole.encode(text).ids
        return found

    def row(self, text: str, *, truncate: bool = False) -> list[int]:
        """One text, padded; a text that is too long is refused, or cut if that is asked for."""
        if len(text) > MOST_CHARACTERS and not truncate:
            raise _too_long(f"{len(text)} characters", len(text), MOST_CHARACTERS)
        ids = self.ids(text[:MOST_CHARACTERS])
        if len(ids) > self.length:
            if not truncate:
                raise _too_long(f"{len(ids)} tokens", len(ids), self.length)
            ids = self._cut.encode(text[:MOST_CHARACTERS]).ids
        return ids + [self.pad] * (self.length - len(ids))

    def rows(self, texts: list[str], *, truncate: bool = False) -> Tokens:
        """Several texts, (batch, length)."""
        return np.array([self.row(text, truncate=truncate) for text in texts], dtype=np.int64)


class TextTower:
    """A bundle's text tower, tested when it is opened; threads may share it."""

    def __init__(self, folder: Path, record: TextRecord) -> None:
        self.tokenizer = Tokenizer(folder / record.tokenizer, record.length, record.pad)
        self._session = Session(folder / record.file, takes=TOKENS)
        check_text(self.embed(GOLDEN, truncate=True), record.golden, f"{folder / record.file}")

    def embed(self, text: str, *, truncate: bool = False) -> Vectors:
        """The raw vector of a text, (D,)."""
        if not text.strip():
            raise ParameterInvalid("the text is empty", fix="name what is to be seen: a dog", field="text", value="")
        found: Vectors = self._session.run(self.tokenizer.rows([text], truncate=truncate))[0]
        return found


def text_tower(bundle: Bundle) -> TextTower | None:
    """The text tower of a bundle, opened once; None where it has none."""
    record = bundle.manifest.text
    if record is None:
        return None
    return _opened(bundle.path, bundle.manifest.digest, record.model_copy(update={"recall": ()}))  # which has no hash


@lru_cache(maxsize=4)
def _opened(folder: Path, _digest: str, record: TextRecord) -> TextTower:
    return TextTower(folder, record)


def _too_long(what: str, value: int, limit: int) -> ParameterInvalid:
    return ParameterInvalid(
        f"the text has {what}",
        fix=f"give at most {limit}, or ask for truncation",
        field="text",
        value=value,
        limit=limit,
    )
