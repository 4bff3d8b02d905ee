"""What a model's vectors retrieve when they are shortened: every length, and vectors stored cut and asked whole.

    python benchmarks/vectors.py LABELLED... [--bundle NAME_OR_FOLDER]... [--precision int8] [--dense]
    python benchmarks/vectors.py LABELLED... --bundle photo --precision fp32 --asked int8     old vectors, new queries

A labelled folder holds a folder of images a class; each image asks for the others of its class. P@1 and mAP@100
(denominator min(R, 100)) by cosine, with 95 % bootstrap intervals over the queries; active dimensions and bytes of a
stored vector (a 2-byte index and a float16 for each, a float16 for a dense number), vectors without any, and live
dimensions; beside the first 512 columns as many by chance. `stored k` keeps each vector's k largest values and asks
with the whole vector; `re-ranked` asks the vectors that are stored cut for 200 and orders these by their whole vectors.
`k bits` stores the model's bits (`nonneg_vectors.BitForm`), asked by whole vectors, or by bits.
With --gate, also the same vectors without what is below it in columns that were not trained, asked by such vectors and
by whole ones. With --asked, the queries are of another form of the model than the stored vectors.
With --dense, beside them dense vectors of the same bytes from the same backbone and the same statistics: the bundle's
mean and covariance of the roots of pooled features, half whitened as the head's columns. They are stored with 8 or 4
bits a number and a 2-byte scale a vector, or with a bit a number (1,024 or 1,280 components, turned at random), and
asked whole.
Prints a table a folder, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.shortening import keep_largest
from nonneg_export.calibrate.activations import collect
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.head_file import SPREAD, read_spread
from nonneg_runtime.heads.analytic_head import EXPONENT, components, random_rotation
from nonneg_runtime.inference.variants import open_variant
from nonneg_vectors.evaluation.ranking import RetrievalReport, retrieval
from nonneg_vectors.evaluation.retrieval import by_chance, choose
from nonneg_vectors.evaluation.uncertainty import interval
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.packing import pack_sparse, unpack_sparse

LENGTHS = (512, 256, 128, 64)
STORED = (128, 64, 25)  # values a vector, beside a tenth of all
BITS = (1280, 1024, 704)  # of a vector
DRAWS = 3  # of columns by chance
DENSE = {8: (1280, 512, 227, 128, 64), 4: (448, 174), 1: (1280, 1024, 704)}  # bits a number: numbers of a dense vector
SCALE = 2  # bytes of a dense vector's scale
ENTRY, NUMBER = 4, 2  # bytes: a 2-byte index and a float16, or a float16 alone
Vectors = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", type=Path, nargs="+")
    parser.add_argument("--bundle", action="append", help="By default photo and photo-fast.")
    parser.add_argument("--precision", choices=("fp32", "int8", "bf16"))
    parser.add_argument("--asked", choices=("fp32", "int8", "bf16"), help="The form of the queries.")
    parser.add_argument("--dense", action="store_true", help="Also dense vectors of the same backbone.")
    parser.add_argument("--gate", type=float, help="Also vectors of which smaller values are dropped, such as 0.75.")
    options = parser.parse_args()
    found = []
    for name in options.bundle or ("photo", "photo-fast"):
        bundle = open_variant(name, options.precision)
        asking = open_variant(name, options.asked) if options.asked else None
        for folder in options.labelled:
            rows = measured(bundle, find_photos(folder), options.dense, asking, options.gate)
            form = bundle.manifest.precision + (f", asked by {options.asked}" if asking else "")
            print(f"\n{bundle.manifest.name} ({form}) on {folder.name}\n\n{table(rows)}")
            found.append({"model": bundle.manifest.name, "data": folder.name, "rows": rows})
    forms = {"precision": options.precision, "asked": options.asked}
    print("\n" + json.dumps({"found": found, **forms, **provenance()}))


def embedded(bundle: Bundle, photos: Photos) -> tuple[Vectors, NDArray[np.str_]]:
    """Return the vectors of photos, and their labels."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        seen = collect(bundle.encoder, photos, bundle.manifest.view, Path(place), precision=bundle.manifest.precision)
        return np.array(seen.values), np.array(photos.labels(seen.paths))


def measured(
    bundle: Bundle, photos: Photos, beside: bool, asking: Bundle | None, gate: float | None
) -> list[dict[str, object]]:
    """Return a row a way to shorten."""
    z, labels = embedded(bundle, photos)
    asked = z if asking is None else embedded(asking, photos)[0]
    width = z.shape[1]
    tenth = round(width / 10)
    lengths = [k for k in (width, *LENGTHS) if k <= width]
    rows = [row(f"first {k}", z[:, :k], retrieval(z[:, :k], labels, asked[:, :k], k=100, same=True)) for k in lengths]
    rows += [by_draws(z, labels, k) for k in LENGTHS[:1] if k < width]
    for k in (tenth, *STORED):
        stored = keep_largest(z, k)
        small, size = packed(stored)
        found = row(
            f"stored {k} in the compact form, asked whole", small, retrieval(small, labels, asked, k=100, same=True)
        )
        rows.append(found | {"bytes": size})
        rows.append(row(f"stored {k}, asked whole", stored, retrieval(stored, labels, asked, k=100, same=True)))
        rows.append(row(f"stored {k}, re-ranked", stored, retrieval(stored, labels, asked, k=100, same=True, whole=z)))
    rows += of_bits(bundle, z, labels, asked)
    if beside:
        rows += dense(bundle, photos, labels)
    if gate is not None:
        rows += behind_gate(z, labels, bundle, gate)
    return rows


def of_bits(bundle: Bundle, z: Vectors, labels: NDArray[np.str_], asked: Vectors) -> list[dict[str, object]]:
    """Return the rows of vectors that are stored as bits."""
    columns = bundle.manifest.columns
    form = BitForm.of(columns.expected_activation, columns.variance)
    found = []
    for k in [k for k in BITS if k <= len(form)]:
        part = form.first(k)
        signs, asking = (np.unpackbits(part.pack(v), axis=1, count=k) * np.float32(2) - 1 for v in (z, asked))
        for words, query in (("asked whole", part.centred(asked)), ("asked by bits", asking)):
            report = retrieval(signs, labels, query, k=100, same=True)
            found.append(row(f"{k} bits, {words}", signs, report) | {"bytes": k // 8})
    return found


def by_draws(z: Vectors, labels: NDArray[np.str_], k: int) -> dict[str, object]:
    """Return the row of k columns drawn by chance, each query's mean over the draws."""
    drawn = [choose(z, by_chance(z.shape[1], seed), k) for seed in range(DRAWS)]
    found = [retrieval(cut, labels, k=100) for cut in drawn]
    mean = replace(
        found[0],
        precision={1: np.mean([report.precision[1] for report in found], axis=0)},
        average_precision=np.mean([report.average_precision for report in found], axis=0),
    )
    return row(f"random {k}, mean of {DRAWS} draws", drawn[0], mean)


def packed(stored: Vectors) -> tuple[Vectors, float]:
    """Return the vectors as the compact form gives them back, and its mean bytes a vector."""
    found, size, width = np.zeros_like(stored), 0, stored.shape[1]
    for z, back in zip(stored, found, strict=True):
        indices = np.flatnonzero(z)
        data = pack_sparse(indices, z[indices], width)
        size += len(data)
        places, values = unpack_sparse(data, width)
        back[places] = values
    return found, round(size / len(stored), 1)


def row(name: str, stored: Vectors, report: RetrievalReport) -> dict[str, object]:
    """Return what a table says of one way."""
    active = stored != 0
    found: dict[str, object] = {"": name}
    for key, values in (("P@1", report.precision[1]), ("mAP@100", report.average_precision)):
        bounds = interval(values)
        found |= {key: round(bounds.mean, 4), f"{key} low": round(bounds.low, 4), f"{key} high": round(bounds.high, 4)}
    return found | {
        "nnz": round(float(active.sum(axis=1).mean()), 1),
        "bytes": round(NUMBER * stored.shape[1] if (stored < 0).any() else ENTRY * float(active.sum(axis=1).mean())),
        "zero": int((~active.any(axis=1)).sum()),
        "live": int(active.any(axis=0).sum()),
    }


def behind_gate(z: Vectors, labels: NDArray[np.str_], bundle: Bundle, gate: float) -> list[dict[str, object]]:
    """Return what vectors behind a gate retrieve, asked by such vectors and by those before it."""
    head = bundle.manifest.head
    assert head is not None
    small = z ** (1 / head.power) <= gate
    small[:, : head.trained] = False
    behind = np.where(small, np.float32(0), z)
    found = []
    for k in (z.shape[1], *LENGTHS[:1]):
        for words, asked in (("by it", behind), ("by what is before it", z)):
            report = retrieval(behind[:, :k], labels, asked[:, :k], k=100, same=True)
            found.append(row(f"first {k} behind a gate of {gate:g}, asked {words}", behind[:, :k], report))
    for k in (round(z.shape[1] / 10), 64):
        stored = keep_largest(behind, k)
        for words, asked in (("by it", behind), ("by what is before it", z)):
            report = retrieval(stored, labels, asked, k=100, same=True)
            found.append(row(f"stored {k} behind a gate of {gate:g}, asked {words}", stored, report))
    return found


def dense(bundle: Bundle, photos: Photos, labels: NDArray[np.str_]) -> list[dict[str, object]]:
    """Return dense vectors of the backbone by bytes, stored with few bits and asked whole."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        plain = Path(place, "pooled.onnx")
        plain.write_bytes(pooled(bundle))
        x = np.sqrt(np.array(collect(plain, photos, bundle.manifest.view, Path(place, "seen")).values))
    of = read_spread(bundle.path / SPREAD)
    p = ((x - of.mean) @ components(of, x.shape[1], EXPONENT)).astype(np.float32)
    turned = {n: p[:, :n] @ random_rotation(n, 0) for n in DENSE[1][:2]}
    found = []
    for bits, lengths in DENSE.items():
        for k in lengths:
            asked = (turned[max(k, DENSE[1][1])] if bits == 1 else p)[:, :k]
            stored = rounded(asked, bits)
            size = k * bits // 8 + (SCALE if bits > 1 else 0)
            each = row(f"dense {k}, {bits} bits", stored, retrieval(stored, labels, asked, k=100, same=True))
            found.append(each | {"bytes": size})
    return found


def rounded(z: Vectors, bits: int) -> Vectors:
    """Return numbers as they come back from so many bits; one bit is the sign."""
    if bits == 1:
        return np.where(z > 0, np.float32(1), np.float32(-1))
    most = 2 ** (bits - 1) - 1
    scale = np.abs(z).max(axis=1, keepdims=True) / most
    return np.asarray(np.rint(z / scale) * scale, dtype=np.float32)


def pooled(bundle: Bundle) -> bytes:
    """Return the encoder up to the features that the head takes the roots of."""
    import onnx

    model = onnx.load(bundle.encoder, load_external_data=False)
    roots = next(node for node in model.graph.node if node.op_type == "Sqrt")
    del model.graph.node[list(model.graph.node).index(roots) :]
    weights = [node for node in model.graph.node if node.input[0].startswith("head.")]
    for node in weights:
        model.graph.node.remove(node)
    kept = {name for node in model.graph.node for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in kept]
    model.graph.ClearField("initializer")
    model.graph.initializer.extend(tensors)
    for node in model.graph.node:
        node.output[:] = ["embedding" if name == roots.input[0] else name for name in node.output]
    shape = model.graph.output[0].type.tensor_type.shape
    shape.dim[1].Clear()
    return model.SerializeToString()


def table(rows: list[dict[str, object]]) -> str:
    """Markdown."""
    head = ("", "P@1", "mAP@100", "nnz", "bytes", "zero", "live")
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for found in rows:
        cells = [str(found[""])]
        cells += [f"{found[k]:.3f} ({found[k + ' low']:.3f} to {found[k + ' high']:.3f})" for k in ("P@1", "mAP@100")]
        cells += [str(found[key]) for key in ("nnz", "bytes", "zero", "live")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
