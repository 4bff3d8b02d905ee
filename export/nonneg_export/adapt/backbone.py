"""A bundle as a backbone: what its encoder computes before the head, and the names another head keeps.

The head's weights lie in a file beside the graph, so a head that lets the features through can be put there. Of a
bundle without such a file the embedding is what a head is put behind.
"""

import hashlib
import shutil
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.terminal.installing import extra_hint
from nonneg_runtime.bundle.bundle_folder import Bundle, storing
from nonneg_runtime.bundle.head_file import read_head, read_spread, write_head
from nonneg_runtime.bundle.manifest import HeadRecord
from nonneg_runtime.heads.feature_head import passing
from nonneg_runtime.heads.head import Head
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.variants import open_variant
from nonneg_runtime.words.lexicon import Lexicon
from nonneg_runtime.words.names import Names, read_names

WIDEST = 4096  # features whose covariance is put in order in a minute


@dataclass(frozen=True, eq=False)
class SourceBundle:
    """The bundle that is adapted, with its head - on roots of features, or on their directions - and its statistics."""

    bundle: Bundle
    head: Head
    ordinary: Spread | None  # what the head was fitted on; None: the head stands for the bundle's own embedding
    named: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))  # its columns along a class, which stay
    trained: int = 0  # columns in front that were trained

    @property
    def view(self) -> View:
        """How its encoder sees photos."""
        return self.bundle.manifest.view

    @property
    def features(self) -> int:
        """How many features the head takes."""
        return int(self.head.weight.shape[0])

    @property
    def digest(self) -> str:
        """Names all that its features depend on."""
        manifest = self.bundle.manifest
        parts = [self.bundle.file] if self.ordinary is not None else sorted(manifest.files)
        digests = " ".join(manifest.files[name].sha256 for name in parts)
        return hashlib.sha256(f"{digests} {self.view.model_dump_json()}".encode()).hexdigest()


def open_source(path: str | Path | None) -> SourceBundle:
    """Open the bundle at `path`, or the shipped model of that name, in its fastest form that computes right here."""
    bundle = open_variant(path, "auto")
    record = bundle.manifest.head
    if record is None or not record.spread:
        return _by_embedding(bundle, "no head in a file of its own")
    head = read_head(bundle.path / record.file)
    if not has_room(head, signed=is_signed(record)):  # features that do not fit where columns go
        return _by_embedding(bundle, "fewer columns than what its head takes needs")
    return SourceBundle(bundle, head, read_spread(bundle.path / record.spread), _named(bundle), record.trained)


def _by_embedding(bundle: Bundle, why: str) -> SourceBundle:
    """Return the bundle's embedding as features: their roots, squared, are the embedding. `why`: what it has."""
    dimensions = bundle.manifest.dimensions
    if find_spec("onnx") is None:
        raise MissingExtra(
            f"{bundle.path} has {why}: it is adapted by its embedding, which needs onnx", fix=extra_hint("export")
        )
    if dimensions > WIDEST:
        raise ConfigInvalid(
            f"{bundle.path} has {dimensions} dimensions, more than {WIDEST}",
            fix="adapt a bundle of fewer; `nonneg rank --dimensions` makes one",
            field="from",
            value=dimensions,
            limit=WIDEST,
        )
    nothing = np.zeros(dimensions, dtype=np.float32)
    return SourceBundle(bundle, Head(np.eye(dimensions, dtype=np.float32), nothing, power=2.0), None)


def _named(bundle: Bundle) -> Numbers:
    """Return the columns that lie along a class that they are called after."""
    record = bundle.manifest.names
    names = () if record is None else read_names(bundle.path / record.file, bundle.manifest.dimensions).names
    return np.array([name.dimension for name in names if name.source == "direction"], dtype=np.int64)


class FeatureBackbone:
    """What a source's head takes, as its encoder computes it: roots of features, or their directions."""

    def __init__(self, source: SourceBundle, work: Path, callers: int) -> None:
        """Open the encoder of a source; `work` is a folder that lasts as long as this object."""
        self.features, self._head, self._signed = source.features, source.head, False
        encoder, record = source.bundle.encoder, source.bundle.manifest.head
        if source.ordinary is not None and record is not None:
            encoder, self._signed = work / source.bundle.file, is_signed(record)
            with storing(work):
                shutil.copyfile(source.bundle.encoder, encoder)
                write_head(pass_through_head(source.head, signed=self._signed), work / record.file)
        self._session = open_session(encoder, callers=callers, precision=source.bundle.manifest.precision)

    def roots(self, pixels: Pixels) -> Rows:
        """Return what the head takes of a batch, (batch, features)."""
        return head_inputs(self._head, np.asarray(self._session.run(pixels), dtype=np.float32), signed=self._signed)


# Recovers a head's input features from its graph: the head's weights are replaced so that features pass unchanged.


def is_signed(record: HeadRecord) -> bool:
    """Return whether what the head takes goes below zero."""
    return record.takes != "roots"


def has_room(head: Head, *, signed: bool) -> bool:
    """Return whether what the head takes has room in its columns; what is below zero needs columns of its own."""
    needed: int = head.weight.shape[0] * (2 if signed else 1)
    return needed <= head.dimensions


def pass_through_head(head: Head, *, signed: bool) -> Head:
    """Return the head of the same shape that lets what it takes through; what is below zero in columns of its own."""
    width = head.weight.shape[0]
    positive = passing(width, head)
    if not signed:
        return positive
    both = np.concatenate([np.eye(width), -np.eye(width)], axis=1)
    weight = np.zeros_like(head.weight)
    weight[:, : 2 * width] = both
    return replace(positive, weight=weight)


def head_inputs(head: Head, features: Rows, *, signed: bool) -> Rows:
    """Return what the head takes, from what an encoder with the other head answers."""
    width = head.weight.shape[0]
    rows: Rows = features[:, : 2 * width if signed else width] ** np.float32(1 / head.power)
    return rows[:, :width] - rows[:, width:] if signed else rows


# Names and words that stay true of an adapted head: those of the columns that it keeps.

UNNAMED = "columns computed for other photos have no names of their own: `nonneg atlas` shows what they show in them"


def kept_names(names: Names, columns: Numbers) -> Names:
    """Return the names of the columns that stay, which stand at the end."""
    places = at_the_end(columns, names.dimensions)
    survivors = tuple(
        name.model_copy(update={"dimension": places[name.dimension]})
        for name in names.names
        if name.dimension in places
    )
    return names.model_copy(update={"names": survivors, "unnamed": UNNAMED, "chosen_on": ""})


def at_the_end(columns: Numbers, dimensions: int) -> dict[int, int]:
    """Return where each of these columns stands once they are the last ones."""
    return dict(zip(columns.tolist(), range(dimensions - len(columns), dimensions), strict=True))


def kept_lexicon(lexicon: Lexicon, columns: Numbers) -> Lexicon:
    """Return the words of classes that stand for columns that stay alone, which stand at the end."""
    places = at_the_end(columns, lexicon.dimensions)
    survivors = [n for n, entry in enumerate(lexicon.classes) if places.keys() >= set(entry.dimensions)]
    place = {number: i for i, number in enumerate(survivors)}
    groups: dict[tuple[int, ...], int] = {}
    words: dict[str, int] = {}
    for word in lexicon.words:
        members = tuple(place[number] for number in lexicon.members(word) if number in place)
        if len(members) == 1:
            words[word] = members[0]
        elif members:
            words[word] = len(survivors) + groups.setdefault(members, len(groups))
    classes = tuple(
        entry.model_copy(update={"dimensions": tuple(places[column] for column in entry.dimensions)})
        for entry in (lexicon.classes[number] for number in survivors)
    )
    return lexicon.model_copy(update={"classes": classes, "groups": tuple(groups), "words": words})
