"""What adapting takes: `python benchmarks/adapt_scale.py [--photos N]... [--features N] [--folder PHOTOS]`.

With a folder the command itself, from nothing and again with what it put away: seconds, seconds of all processors and
peak memory. Else what comes after embedding, of as many photos as wished: features are generated, normal, with the mean
and covariance of the ordinary photos of the model, around a centre for each of 100 classes; one in 50 is nearly a copy
of another. All runs as in `nonneg adapt` but for embedding and writing. Seconds of each part, and the peak memory of a
process of its own. --features takes the first N features of the model alone and 2 N dimensions: what grows with the
number of photos is the same, in less time. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.terminal.tables import table
from nonneg_export.adapt.backbone import SourceBundle, open_source
from nonneg_export.adapt.fitting import fit, split
from nonneg_export.adapt.judging import by_labels
from nonneg_export.adapt.photo_features import Features
from nonneg_export.adapt.photo_labels import labels_of
from nonneg_export.calibrate.photo_folder import PathList, Photos
from nonneg_export.calibrate.photo_records import CHUNK, Records, record_form, sealed
from nonneg_runtime.heads.feature_head import Weights
from nonneg_runtime.heads.head import first
from nonneg_runtime.heads.moments import Spread

CLASSES, COPIES = 100, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--from", dest="source", default="photo")
    parser.add_argument("--place", type=Path, help="Where the features go; by default a temporary folder.")
    parser.add_argument("--folder", type=Path, help="Real photos: time the command itself.")
    parser.add_argument("--features", type=int)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    source = narrowed(open_source(options.source), options.features)
    if options.one:
        print(json.dumps(measured(source, options.one, options.place)))
        return
    found = of_folder(options.folder, options.source) if options.folder else []
    for photos in [] if options.folder else options.photos:
        with tempfile.TemporaryDirectory(dir=options.place) as place:
            command = [sys.executable, __file__, "--one", str(photos), "--from", options.source, "--place", place]
            command += ["--features", str(source.features)]
            write(source, photos, Path(place) / "records")
            found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    columns = list(found[0])
    print(table(columns, [[row[column] for column in columns] for row in found]))
    print("\n" + json.dumps({"found": found, **provenance()}))


def narrowed(source: SourceBundle, features: int | None) -> SourceBundle:
    """Return the source as if its backbone had so many features."""
    if features is None or features == source.features:
        return source
    kept, ordinary = slice(features), source.ordinary
    head = first(source.head, 2 * features)
    spread = Spread(ordinary.mean[kept], ordinary.covariance[kept, kept], ordinary.count)
    return SourceBundle(source.bundle, replace(head, weight=head.weight[kept]), spread)


def of_folder(folder: Path, source: str) -> list[dict[str, object]]:
    """Return the command with an empty cache, and once more."""
    with tempfile.TemporaryDirectory() as place:
        options = ["--out", f"{place}/mine.bundle", "--from", source, "--force", "--replace", "--json"]
        command = [sys.executable, "-m", "nonneg_cli", "adapt", str(folder), *options]
        return [{"run": run, **timed(command, Path(place))} for run in ("from nothing", "again")]


def timed(command: list[str], place: Path) -> dict[str, object]:
    """Return what one run takes."""
    begin = time.perf_counter()
    with (place / "told").open("w") as told:
        process = subprocess.Popen(command, stdout=told, env={**os.environ, "XDG_CACHE_HOME": str(place)})
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"it ended with {status}")
    outcome = json.loads((place / "told").read_text())
    return {
        "photos": outcome["photos"] + outcome["judged"], "s": round(time.perf_counter() - begin, 1),
        "processor s": round(used.ru_utime + used.ru_stime, 1), "peak MB": round(used.ru_maxrss / 1024),
    }  # fmt: skip


def write(source: SourceBundle, photos: int, file: Path) -> None:
    """Generate the records."""
    g = np.random.default_rng(0)
    values, axes = np.linalg.eigh(source.ordinary.covariance)
    turn = (np.sqrt(values.clip(0))[:, None] * axes.T).astype(np.float32)
    mean = source.ordinary.mean.astype(np.float32)
    centres = g.normal(size=(CLASSES, len(mean))).astype(np.float32) @ turn
    with file.open("wb") as out:
        for start in range(0, photos, CHUNK):
            count = min(CHUNK, photos - start)
            records = np.zeros(count, dtype=record_form(len(mean)))
            rows = g.normal(size=(count, len(mean))).astype(np.float32) @ turn * 0.7
            rows += mean + centres[(start + np.arange(count)) * CLASSES // photos] * 0.7
            thumbnails = g.integers(0, 256, records["thumbnail"].shape, dtype=np.uint8)
            again = np.arange(1, count, COPIES)
            rows[again] = rows[again - 1] * 1.01
            thumbnails[again] = thumbnails[again - 1]
            records["thumbnail"], records["roots"] = thumbnails, rows.clip(0)
            records["digest"] = np.frombuffer(g.bytes(32 * count), dtype="V32")
            records["key"] = np.arange(start, start + count)
            out.writelines(sealed(records[i : i + 1]).tobytes() for i in range(count))


def measured(source: SourceBundle, photos: int, place: Path) -> dict[str, float]:
    """Return every part but embedding and writing."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    marks = [time.perf_counter()]
    paths = PathList(place, (place / f"class-{i * CLASSES // photos}" / f"{i:08}.jpg" for i in range(photos)))
    records, everyone = Records(place / "records", record_form(source.features)), np.arange(photos)
    held = records.stored()
    rows = held.rows(everyone.astype(np.uint64))
    features = Features(records, Photos(place, paths), everyone, rows, held.digests[rows], ())
    marks.append(time.perf_counter())
    labels = labels_of(features, None)
    marks.append(time.perf_counter())
    parts = split(features, source.head)
    marks.append(time.perf_counter())
    fitted = fit(source, features, parts, labels, Weights())
    marks.append(time.perf_counter())
    by_labels(source.head, fitted.head, features, labels, parts.judged)
    marks.append(time.perf_counter())
    names = ("read s", "labels s", "split s", "fit s", "judge s")
    seconds = dict(zip(names, np.diff(marks).round(1).tolist(), strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "photos": photos, "features": source.features, **seconds, "all s": round(marks[-1] - marks[0], 1),
        "copies": parts.copies, "processor s": round(time.process_time()),
        "model MB": round(before / 1024), "peak MB": round(peak / 1024),
    }  # fmt: skip


if __name__ == "__main__":
    main()
