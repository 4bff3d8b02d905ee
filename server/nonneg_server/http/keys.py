"""API keys: only their SHA-256 is kept, on disk and in memory, and comparing takes the same time for every guess.

A key is 32 random bytes, so that a plain hash is enough: there is nothing to guess from a dictionary.
"""

import hashlib
import hmac
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from nonneg_core.errors import ConfigInvalid

logger = logging.getLogger("nonneg")
MARK = "sha256:"
METRICS = "metrics"  # behind a key that opens nothing else


class Keys:
    """The known keys, by name; others may take their place while it serves."""

    def __init__(self, digests: Mapping[str, bytes], of_metrics: Collection[str] = ()) -> None:
        self._digests = dict(digests)
        self.of_metrics = frozenset(of_metrics)  # names of those that open GET /metrics alone

    def __len__(self) -> int:
        return len(self._digests)

    def name_of(self, presented: str) -> str | None:
        """Return the name of a known key, or None. Every known key is compared, whichever one it is."""
        digest, owner = digest_of(presented), None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                owner = name
        return owner

    def replace(self, others: "Keys") -> tuple[list[str], list[str]]:
        """Replace all keys; return the names of those that are new and of those that were withdrawn."""
        before, self._digests, self.of_metrics = self._digests, others._digests, others.of_metrics
        return _lacking(self._digests, before), _lacking(before, self._digests)


def reload_keys(keys: Keys, given: Sequence[str], file: Path) -> None:
    """Read the file again; an invalid one is logged and changes nothing: the present keys stay."""
    try:
        added, withdrawn = keys.replace(read_keys(given, file))
    except ConfigInvalid as error:
        logger.error("the API keys stay as they were, withdrawn ones included: %s; then send SIGHUP again", error)
        return
    changes = f"new: {', '.join(added) or 'none'}; withdrawn: {', '.join(withdrawn) or 'none'}"
    logger.warning("read the API keys again: %s, %d keys, %s", file, len(keys), changes)


def read_keys(given: Sequence[str], file: Path | None) -> Keys:
    """Return keys from the settings and from a file, a line each: `name sha256:<hex> [metrics]`; # begins a comment."""
    lines = [(f"key {number}", text) for number, text in enumerate(given, 1)]
    digests = {name: _digest(text, name) for name, text in lines}
    of_metrics = []
    for number, line in enumerate(_lines(file), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        alone = words[-1] == METRICS
        words = words[:-1] if alone else words
        name = words[0] if len(words) == 2 else f"line {number}"
        if len(words) not in (1, 2) or name in digests or not words[-1].startswith(MARK):
            raise ConfigInvalid(
                f"{file}, line {number} is not a key, or has a name used before",
                fix="write `name sha256:<hex>`, as `nonneg key` prints it",
                field="api_key_file",
            )
        digests[name] = _digest(words[-1], f"{file}, line {number}")
        of_metrics += [name] if alone else []
    if file is not None and len(digests) == len(lines):  # a file of keys must not open the server
        raise ConfigInvalid(f"{file} holds no key", fix="add what `nonneg key` prints", field="api_key_file")
    return Keys(digests, of_metrics)


def digest_of(key: str) -> bytes:
    """Return the SHA-256 of a key, which is all that is kept of it."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _lacking(these: Mapping[str, bytes], those: Mapping[str, bytes]) -> list[str]:
    """Return whose keys of these are not among those, under whatever name."""
    known = frozenset(those.values())
    return [name for name, digest in these.items() if digest not in known]


def _digest(text: str, where: str) -> bytes:
    if not text.startswith(MARK):
        if len(text) < 16:
            raise ConfigInvalid(
                f"{where} has {len(text)} characters", fix="make one with `nonneg key`", field="api_key"
            )
        return digest_of(text)
    try:
        digest = bytes.fromhex(text[len(MARK) :])
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise ConfigInvalid(f"{where} is not a SHA-256 in hex", fix="make a key with `nonneg key`", field="api_key")
    return digest


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{file} cannot be read ({error})", fix="check --api-key-file and its permissions", field="api_key_file"
        ) from None
