"""What shortening the default model costs: retrieval at each length on a labelled folder of your own.

    python benchmarks/shortening.py caltech101/ [--lengths 1280,512,128]

Prints the table that the README shows and one line of JSON. The photos must be neither those that trained the backbone
nor those that ranked the columns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from pathlib import Path

from nonneg_client import evaluate
from nonneg_client.evaluation.datasets import image_folder
from nonneg_client.local import Encoder

COLUMNS = ("P@1", "P@10", "mAP@100", "kNN", "zero", "nnz", "sparse_bytes", "dense_bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--lengths", default="1280,512,256,128")
    asked = parser.parse_args()
    data = image_folder(asked.folder)
    with Encoder(asked.bundle) as encoder:
        embeddings = encoder.embed(data.paths)
    labels = [path.parent.name for path in data.paths]
    rows = [
        row.record() for row in evaluate(embeddings, labels=labels, lengths=[int(n) for n in asked.lengths.split(",")])
    ]
    print("| dimensions | " + " | ".join(COLUMNS) + " |\n|---:|" + "---:|" * len(COLUMNS))
    for row in rows:
        cells = [f"{row[name]:.3f}" if row[name] <= 1 else f"{row[name]:.0f}" for name in COLUMNS]
        print(f"| {row['dimensions']} | " + " | ".join(cells) + " |")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    found = {"images": len(labels), "classes": len(set(labels)), "fingerprint": embeddings.fingerprint, "rows": rows}
    print(json.dumps({"commit": commit.strip(), "machine": f"{platform.machine()} {os.cpu_count()} cores", **found}))


if __name__ == "__main__":
    main()
