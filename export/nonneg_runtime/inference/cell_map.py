"""Where in a picture a dimension comes from: its strength split over the cells whose mean the head reads.

A convolutional backbone ends in a map F (channels, rows, columns) whose mean m over the cells goes through a root and a
linear layer. So p = b + sum_c W[c] sqrt(m[c]). Channel c's part of p is given to the cells in proportion to their parts
of its mean, F[c, cell] / sum F[c], and b evenly to all. So the cells of a dimension sum to p, scaled by z / p to its
strength z. A cell against the dimension has a part below zero. Models without such a map, or whose head lies inside the
graph, cannot be split: that is told when one is opened.

The map is not among the outputs of the encoder's graph. A second session gets it: the file's bytes with one output
more, which protobuf lets one append.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ParameterInvalid
from nonneg_core.pixels.view import Pixels
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, storing
from nonneg_runtime.bundle.external_data import ExternalTensor, external_files, fields
from nonneg_runtime.bundle.head_file import read_head
from nonneg_runtime.heads.head import Head, roots
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import test_pattern

MEANS = (b"GlobalAveragePool", b"ReduceMean")
LONGEST = 4096  # bytes of a name
TOLERANCE = 1e-3  # of the vector that the map and the head come to, relative to the graph's own
GRAPH, NODE, OUTPUTS = 7, 1, 12  # fields of onnx.proto: of a model, and of a graph
INPUT_OF, KIND_OF, NAME_OF = 1, 4, 1  # of a node, and of a value

Cells = NDArray[np.float32]


class CellMap:
    """A second session of a model, for where its dimensions come from; any thread may use it."""

    def __init__(self, bundle: Bundle) -> None:
        record = bundle.manifest.head
        tensor = pooled_map(bundle.path / ENCODER)
        if record is None or tensor is None:
            raise no_cell_map(bundle, "no map of cells stands before its head")
        self._rooted = record.takes == "roots"
        self._head = read_head(bundle.path / record.file)
        self._session = _with_output(bundle.path / ENCODER, tensor)
        size = bundle.manifest.view.size
        if not self._agrees(bundle, test_pattern(size)):
            raise no_cell_map(bundle, "what its head reads is not the mean of a map of cells")

    def split(self, pixels: Pixels, dimensions: list[int]) -> Cells:
        """Return the strengths of some dimensions by cell, (dimensions, rows, columns); zeros where one is not active.

        pixels: of one picture, as the encoder takes them (size, size, 3).
        """
        feature_map = self._session.run(pixels[None])[0]  # (C, rows, columns)
        return split(feature_map, self._head, dimensions, rooted=self._rooted)

    def _agrees(self, bundle: Bundle, pixels: Pixels) -> bool:
        feature_maps = self._session.run(pixels)
        if feature_maps.ndim != 4 or feature_maps.shape[1] != len(self._head.weight) or feature_maps.min() < 0:
            return False
        means = feature_maps.mean(axis=(2, 3))
        z = self._head.embed(roots(means) if self._rooted else means)[0]
        own = Session(bundle.path / ENCODER).run(pixels)[0]
        return bool(np.linalg.norm(z - own) <= TOLERANCE * np.linalg.norm(own))


def split(feature_map: Cells, head: Head, dimensions: list[int], *, rooted: bool) -> Cells:
    """Apply the rule: (channels, rows, columns) -> (dimensions, rows, columns), which sum to dimensions' strengths."""
    channels, *shape = feature_map.shape
    cells = feature_map.reshape(channels, -1).astype(np.float64)
    sums = cells.sum(axis=1)
    means = sums / cells.shape[1]
    read = np.sqrt(means) if rooted else means
    shares = cells / np.where(sums > 0, sums, 1)[:, None]  # of each channel's mean
    weight, bias = head.weight[:, dimensions].astype(np.float64), head.bias[dimensions].astype(np.float64)
    parts = (weight * read[:, None]).T @ shares + bias[:, None] / cells.shape[1]  # (dimensions, cells), sums to p
    p = parts.sum(axis=1)
    active = p > 0
    scale = np.where(active, np.where(active, p, 1) ** (head.power - 1), 0)
    return np.asarray((parts * scale[:, None]).reshape(len(dimensions), *shape), np.float32)


def pooled_map(path: Path) -> str | None:
    """Return the name of the tensor that the last mean over cells in an encoder's graph reads, if there is one."""
    tensor = None
    with path.open("rb") as file:
        for kind, inputs in _nodes(ExternalTensor(file, 0, file.seek(0, 2))):
            if kind in MEANS and inputs:
                tensor = inputs[0]
    return tensor


def no_cell_map(bundle: Bundle, why: str) -> ParameterInvalid:
    """Return the error of a model that cannot say where."""
    return ParameterInvalid(
        f"{bundle.manifest.name} cannot say where its dimensions come from: {why}",
        fix="leave where out, or ask a model that can: photo, photo-fast",
        field="where",
        value=True,
    )


def _nodes(model: ExternalTensor) -> Iterator[tuple[bytes, list[str]]]:
    """Yield what kind each node of the graph is, and what it reads."""
    for number, graph in fields(model):
        if number == GRAPH:
            for part, node in fields(graph):
                if part == NODE:
                    texts = [(field, text.read(text.start, LONGEST)) for field, text in fields(node) if field < 5]
                    kinds = [text for field, text in texts if field == KIND_OF]
                    yield kinds[0] if kinds else b"", [t.decode() for field, t in texts if field == INPUT_OF]


def _with_output(encoder: Path, tensor: str) -> Session:
    """Return the encoder with one of its tensors as another output, which alone is computed."""
    with storing(encoder), tempfile.TemporaryDirectory(prefix="nonneg-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / ENCODER
        place.write_bytes(encoder.read_bytes() + _field(GRAPH, _field(OUTPUTS, _field(NAME_OF, tensor.encode()))))
        for name in external_files(encoder):
            shutil.copyfile(encoder.parent / name, Path(folder) / name)
        return Session(place, output=tensor)


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of protobuf."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])
