"""What int8 and bf16 gain and cost: images a second beside fp32 on every core, and retrieval on a labelled folder.

    python benchmarks/precisions.py --calibrate PHOTOS --labelled LABELLED          # the default model
    python benchmarks/precisions.py --calibrate PHOTOS --bundle R50 --few           # speed only, of any bundle

Each variant is made by what `nonneg quantize` runs, in a folder that is thrown away. As many threads as cores call one
shared session, one image at a time, as the server does; pixels are decoded beforehand. The precisions take turns, and a
ratio is the median of the ratios within a turn. bf16 needs OpenVINO and a processor that has it, and is left out
otherwise. Prints a table, then one JSON line. Bias: ratios of the model alone; decoding costs every precision the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client import evaluate
from nonneg_client.local import Encoder
from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.assembly.calibrate_and_seal import seal
from nonneg_export.assembly.quantized_bundle import quantized
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import Runner
from nonneg_runtime.inference.variants import as_variant
from nonneg_vectors.evaluation.labelled_images import image_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", type=Path, required=True)
    parser.add_argument("--labelled", type=Path)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--few", action="store_true", help="Calibrate on 100 photos: enough to measure speed.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bundles = variants(options, Path(place))
        speeds = measured(bundles, find_photos(options.calibrate).every(16).paths, options.rounds, options.seconds)
        scores = {name: scored(bundle, options.labelled) for name, bundle in bundles.items()}
    rows = []
    for name, bundle in bundles.items():
        ratio = median(mine / base for mine, base in zip(speeds[name], speeds["fp32"], strict=True))
        costs = {check.name: check.value for check in checks_of(bundle)}
        alike = 1 - costs["cosine"] if "cosine" in costs else 1.0
        rows.append({"precision": name, "rate": median(speeds[name]), "ratio": ratio, "cosine": alike, **scores[name]})
    head = ("precision", "images/s", "of fp32", "cosine", "P@1", "P@10")
    print(f"| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}")
    for row in rows:
        cells = [f"{row['rate']:.1f}", f"{row['ratio']:.2f}", f"{row['cosine']:.4f}"]
        cells += [f"{row[key]:.4f}" if key in row else "-" for key in ("P@1", "P@10")]
        print(f"| {row['precision']} | {' | '.join(cells)} |")
    print(json.dumps({"bundle": bundles["fp32"].manifest.name, "rows": rows, **provenance()}))


def variants(options: argparse.Namespace, work: Path) -> dict[str, Bundle]:
    """Return the bundle and what can be made of it here."""
    base = open_bundle(options.bundle)
    found = {"fp32": base}
    photos = find_photos(options.calibrate).every(100 if options.few else None)
    found |= {form.precision: as_variant(base, form) for form in base.manifest.variants}  # those that it comes with
    for precision in sorted({"int8", "bf16"} - set(found)):
        try:
            shrunk = quantized(base, precision, photos, work / f"make-{precision}", min_quality=0)
        except (ConfigInvalid, MissingExtra) as error:
            print(f"no {precision}: {error.message}", file=sys.stderr)
            continue
        found[precision] = seal(shrunk, work / precision)
    return found


def checks_of(bundle: Bundle) -> tuple[Check, ...]:
    """Return what was measured of this form when it was made."""
    own = [form.checks for form in bundle.manifest.variants if form.file == bundle.file]
    return own[0] if own else bundle.manifest.checks


def measured(bundles: dict[str, Bundle], paths: Sequence[Path], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return images a second, round by round."""
    cores = available_cores()
    view = bundles["fp32"].manifest.view
    pixels = [load_pixels(path, view)[0][None] for path in paths]
    speeds: dict[str, list[float]] = {name: [] for name in bundles}
    sessions = {
        name: open_session(bundle.encoder, callers=cores, precision=bundle.manifest.precision)
        for name, bundle in bundles.items()
    }
    for _ in range(rounds):
        for name, session in sessions.items():
            speeds[name].append(rate(session, pixels, cores, seconds))
    return speeds


def rate(session: Runner, pixels: list[np.ndarray], callers: int, seconds: float) -> float:
    """Return images a second of so many threads on one session."""
    counts, end = [0] * callers, time.perf_counter() + seconds

    def work(lane: int) -> None:
        while time.perf_counter() < end:
            session.run(pixels[counts[lane] % len(pixels)])
            counts[lane] += 1

    session.run(pixels[0])
    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(callers)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def scored(bundle: Bundle, labelled: Path | None) -> dict[str, float]:
    """Retrieval at full length, on labelled photos."""
    if labelled is None:
        return {}
    data = image_folder(labelled)
    with Encoder(bundle) as encoder:
        embeddings = encoder.embed(data.paths)
    labels = [path.parent.name for path in data.paths]
    record = evaluate(embeddings, labels=labels, lengths=[bundle.manifest.dimensions])[0].record()
    return {name: record[name] for name in ("P@1", "P@10")}


if __name__ == "__main__":
    main()
