"""Mutated images, chosen by what they reach in our code; needs atheris: `guided.py SEED FOLDER LIBFUZZER-FLAGS`.

Each input is made from one that reached something new, by the same mutations of its structure, and held to the same
bounds as in `run.py`. One that breaks a bound is written to FOLDER and ends the run.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))

with atheris.instrument_imports(include=["nonneg_core.pixels"]):
    from images import Images
from mutations import STRUCTURES, mutated
from seeds import seeds

from nonneg_core.pixels.identify import signature


def main() -> None:
    seed, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    images, files = Images(seed), seeds()

    def change(data: bytes, most: int, number: int) -> bytes:
        kind = signature(data)
        try:
            made = mutated(
                kind if kind in STRUCTURES else "", [data, *files.get(kind or "", [])], random.Random(number)
            )
        except (IndexError, ValueError):  # too broken to be taken apart: as bits and bytes
            made = atheris.Mutate(data, most)
        return bytes(made[:most])

    with tempfile.TemporaryDirectory() as corpus:
        for kind, samples in files.items():
            for i, sample in enumerate(samples):
                Path(corpus, f"{kind}-{i}").write_bytes(sample)
        flags = [f"-seed={seed}", "-max_len=200000", "-timeout=120", "-rss_limit_mb=4096", "-print_final_stats=1"]
        flags += [f"-artifact_prefix={folder}/guided-", *sys.argv[3:], corpus]
        atheris.Setup([sys.argv[0], *flags], images.attempt, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
