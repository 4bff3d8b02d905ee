"""Which files an ONNX model reads beside itself: found by walking its protobuf, without onnx and without its weights.

An ONNX tensor may live in another file, named by a path that the model's author chose. Reading skips from field
to field (https://protobuf.dev/programming-guides/encoding) and only descends where a tensor may be. The file is read,
not mapped: one that is cut off meanwhile is an error, where a mapping would end the process.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from nonneg_core.errors import BundleInvalid

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DEEPEST = 32  # graphs in attributes of nodes of graphs in ...
LONGEST = 10  # bytes of a varint
LONGEST_NAME = 65_536  # bytes of an entry's key or value

# message -> {field number: message in that field}, from onnx.proto; "entry" is a key and a value of external_data
FIELDS: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


class Malformed(ValueError):
    """These bytes are not a protobuf message."""


class ExternalTensor(NamedTuple):
    """A message: a stretch of the file."""

    file: BinaryIO
    start: int
    end: int

    def read(self, at: int, most: int) -> bytes:
        """Return its bytes from `at` on, so many or as many as there are."""
        self.file.seek(at)
        return self.file.read(min(most, self.end - at))


def external_files(path: Path) -> set[str]:
    """Return the locations that the tensors of an ONNX file name, as they are written there."""
    try:
        with path.open("rb") as file:
            whole = ExternalTensor(file, 0, file.seek(0, 2))
            if whole.end == 0:
                raise Malformed("it is empty")
            return set(locations(whole, "model", 0))
    except ValueError as error:
        raise BundleInvalid(f"{path} is not an ONNX model ({error})", fix="export the bundle again") from error


def locations(part: ExternalTensor, message: str, depth: int) -> Iterator[str]:
    """Yield the locations in a part of the file that is a message of this type."""
    if depth > DEEPEST:
        raise Malformed(f"messages nested deeper than {DEEPEST}")
    below = FIELDS[message]
    for number, content in fields(part):
        inside = below.get(number)
        if inside == "entry":
            pair = {n: text.read(text.start, LONGEST_NAME).decode() for n, text in fields(content)}
            if pair.get(1) == "location":
                yield pair.get(2, "")
        elif inside is not None:
            yield from locations(content, inside, depth + 1)


def fields(part: ExternalTensor) -> Iterator[tuple[int, ExternalTensor]]:
    """Yield the length-delimited fields of a message; others are passed over."""
    at = part.start
    while at < part.end:
        head = part.read(at, 2 * LONGEST)
        tag, used = _varint(head, 0)
        number, kind = tag >> 3, tag & 7
        if kind == BYTES:
            length, used = _varint(head, used)
            at += used
            if at + length > part.end:
                raise Malformed("a field that is longer than its message")
            yield number, ExternalTensor(part.file, at, at + length)
            at += length
        elif kind == VARINT:
            at += _varint(head, used)[1]
        elif kind in (FIXED32, FIXED64):
            at += used + (4 if kind == FIXED32 else 8)
        else:
            raise Malformed(f"a field of unknown kind {kind}")
    if at > part.end:
        raise Malformed("it breaks off")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("it breaks off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed("a number that does not end")
