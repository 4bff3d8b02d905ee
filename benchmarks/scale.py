"""What 10^6 to 10^9 photos take on 1 to 1,000 workers: hours, core hours, worst loss of work, bytes, and the quality.

    python benchmarks/scale.py PHOTOS LABELLED [--try 400] [--efficiency 0.95] [--lost-per-hour 0.05] [--price 0.03]

Measured here, by processor time of one thread so that other work on the machine hardly matters: a photo of PHOTOS
from its file to its shard (read, decode, encode, write), with each shipped model; bytes of a vector in a shard; names
listed in a second. P@1 is of LABELLED, a folder with a subfolder for each label, each photo asking for the others of
its label.

Assumed, and to be replaced by your own: that a worker of a cluster has `--efficiency` of one process's rate
(ray_embedding.py measures it), that a worker starts in `--start` seconds, that `--lost-per-hour` of the workers are
lost in an hour (machines that may be taken away), and the price of a core hour. A shard that its worker did not
finish is made again: on average half of one for each worker lost, at worst one of twice the usual size on every
worker at once. Prints two tables, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client import Encoder, evaluate
from nonneg_client.bulk.groups import Files, ImageGroup
from nonneg_client.bulk.listing import Sources, groups
from nonneg_client.bulk.shard_job import ShardJob, ShardWriter
from nonneg_client.wire.protocol import Options
from nonneg_vectors.evaluation.retrieval import Length
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import Shard, read_shard

MODELS = ("photo", "photo-fast")
KEPT = (None, 205, 64)
PHOTOS = (10**6, 10**7, 10**8, 10**9)
WORKERS = (1, 10, 100, 1000)
SHARD = 500  # images of a shard on average; twice as many at most
Row = dict[str, float | int | str]


@dataclass(frozen=True)
class Assumed:
    """What was not measured here."""

    efficiency: float
    start: float  # seconds
    lost_per_hour: float  # share of the workers
    price: float  # of a core hour


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("labelled")
    parser.add_argument("--try", dest="tried", type=int, default=400)
    parser.add_argument("--efficiency", type=float, default=0.95)
    parser.add_argument("--start", type=float, default=15.0)
    parser.add_argument("--lost-per-hour", type=float, default=0.05)
    parser.add_argument("--price", type=float, default=0.03)
    asked = parser.parse_args()
    assumed = Assumed(asked.efficiency, asked.start, asked.lost_per_hour, asked.price)
    measured = [row for model in MODELS for row in of_model(model, asked.photos, asked.labelled, asked.tried)]
    listing = listing_rate(asked.photos)
    print_models(measured, assumed)
    seconds = float(measured[0]["cpu_ms"]) / 1000
    planned = [plan(images, workers, seconds, assumed) for images in PHOTOS for workers in WORKERS]
    print_plans(planned)
    record = {"models": measured, "plans": planned, "listed_per_second": listing, "assumed": assumed.__dict__}
    print(json.dumps({**record, **provenance()}))


def of_model(model: str, photos: str, labelled: str, tried: int) -> list[Row]:
    """Return a row for each form in which vectors may be stored."""
    with tempfile.TemporaryDirectory() as folder, Encoder(model, threads=1) as encoder:
        job = ShardJob(Address.of(folder), Options(), encoder.model())
        some = some_of(photos, tried)
        writer = ShardWriter(job, encoder)
        writer.ensure(some_of(photos, 20))  # what is done once
        began = time.process_time()
        shard = writer.ensure(some).shard
        seconds = (time.process_time() - began) / shard.images
        lengths = [Length(job.model.dimensions, kept, asked_whole=kept is not None) for kept in KEPT]
        scores = [row.report.means()["P@1"] for row in evaluate(labelled, through=encoder, lengths=lengths)]
        forms = zip(KEPT, scores, strict=True)
        return [
            {
                "model": model,
                "kept": kept or "all",
                "cpu_ms": 1000 * seconds,
                "bytes": stored_bytes(job, shard, kept),
                "P@1": score,
            }
            for kept, score in forms
        ]


def some_of(photos: str, tried: int) -> ImageGroup:
    """Return one group of so many photos, spread over all of them."""
    found = [(name, group.reader, i) for group in groups(Sources((photos,), SHARD)) for i, name in enumerate(group.ids)]
    chosen = found[:: max(1, len(found) // tried)][:tried]
    files = tuple(reader.files[i] for _, reader, i in chosen if isinstance(reader, Files))
    return ImageGroup(tuple(name for name, _, _ in chosen), Files(files))


def stored_bytes(job: ShardJob, shard: Shard, kept: int | None) -> float:
    """Return the bytes of a vector in a shard."""
    vectors = read_shard(job.target, shard)
    cut = vectors if kept is None else vectors.shorten(top_k=kept)
    return len(parquet.to_bytes(cut, {})) / len(cut)


def listing_rate(photos: str) -> float:
    """Return how many names one process lists in a second."""
    began = time.process_time()
    names = sum(len(group.name) > 0 and len(group.ids) for group in groups(Sources((photos,), SHARD)))
    return names / (time.process_time() - began)


def plan(images: int, workers: int, seconds: float, assumed: Assumed) -> Row:
    """Return what a run takes, with the work that is done again."""
    core_hours = images * seconds / 3600 / assumed.efficiency
    hours = core_hours / workers + assumed.start / 3600
    lost = assumed.lost_per_hour * hours * workers  # workers, while it runs
    again = lost * (SHARD / 2 * seconds + assumed.start) / 3600  # core hours
    worst = min(images, workers * 2 * SHARD)
    return {
        "images": images,
        "workers": workers,
        "hours": hours + again / workers,
        "core_hours": core_hours + workers * assumed.start / 3600 + again,
        "lost_workers": lost,
        "again": min(1.0, lost * SHARD / 2 / images),
        "worst": worst / images,
        "shards": images // SHARD,
    }


def print_models(rows: list[Row], assumed: Assumed) -> None:
    heads = f"{'model':>11} {'stored':>7} {'CPU ms':>7} {'bytes':>6} {'P@1':>6}"
    print(f"{heads} {'10^9: core hours':>17} {'price':>8} {'TB':>6}")
    for row in rows:
        hours = 1e9 * float(row["cpu_ms"]) / 3.6e6 / assumed.efficiency
        print(
            f"{row['model']:>11} {row['kept']!s:>7} {row['cpu_ms']:>7.2f} {row['bytes']:>6.0f} {row['P@1']:>6.3f} "
            f"{hours:>17,.0f} {hours * assumed.price:>8,.0f} {float(row['bytes']) / 1000:>6.2f}"
        )


def print_plans(rows: list[Row]) -> None:
    heads = f"{'photos':>14} {'workers':>8} {'hours':>9} {'core hours':>11}"
    print(f"\n{heads} {'done again':>11} {'worst loss':>11} {'shards':>10}")
    for row in rows:
        print(
            f"{row['images']:>14,} {row['workers']:>8,} {row['hours']:>9,.2f} {row['core_hours']:>11,.1f} "
            f"{row['again']:>11.4%} {row['worst']:>11.4%} {row['shards']:>10,}"
        )


if __name__ == "__main__":
    main()
