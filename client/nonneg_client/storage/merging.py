"""Many shards become one file: to Parquet as they come, to the other forms all at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from nonneg_client.embeddings import Embeddings
from nonneg_client.storage import parquet, save
from nonneg_core.atomic import atomic_write


@dataclass(frozen=True)
class Summary:
    """What a file of vectors holds."""

    vectors: int
    entries: int
    form: Embeddings  # without rows

    @classmethod
    def of(cls, embeddings: Embeddings) -> Summary:
        return cls(len(embeddings), len(embeddings.indices), embeddings[:0])

    def __str__(self) -> str:
        return (
            f"{self.vectors} vectors of {self.form.dimensions} dimensions, {self.entries / max(1, self.vectors):.0f} "
            f"active on average, model {self.form.model} ({self.form.fingerprint[:8]})"
        )


def merge(shards: Iterable[Embeddings], out: Path) -> Summary:
    """Write shards, at least one, to one file."""
    iterator = iter(shards)
    first = next(iterator)
    if out.suffix.lower() != ".parquet":
        whole = Embeddings.concatenate([first, *iterator])
        save(whole, out)
        return Summary.of(whole)
    vectors = entries = 0
    with atomic_write(out) as temporary, parquet.Writer(temporary) as writer:
        for shard in chain([first], iterator):
            writer.write(shard)
            vectors += len(shard)
            entries += len(shard.indices)
    return Summary(vectors, entries, first[:0])
