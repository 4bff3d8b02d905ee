"""From nothing to a served NCL encoder: `ncl_from_nothing.py ROOT WORK [STEPS]`, ROOT holds cifar-10-batches-py.

Trains the recipe concepts on 4,000 images of CIFAR-10, exports the encoder with its ranking, serves it, embeds test
images through the client, and prints retrieval at full length and at a quarter of it. WORK/dimensions.png shows the
images with the largest entries in eight dimensions. It needs the extras training, export, server and client.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_client import Client, evaluate
from nonneg_training.data import open_data

root, work, steps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "400"
paths = {"train": [], "test": []}
for split, count in (("train", 4000), ("test", 1000)):
    images = open_data(f"cifar10:{split}", root)
    for i in range(count):
        paths[split].append(work / split / images.classes[images.labels[i]] / f"{i}.png")
        paths[split][i].parent.mkdir(parents=True, exist_ok=True)
        images.image(i).save(paths[split][i])
learn = ["--config", "concepts", "--data", work / "train", "--size", "96", "--steps", steps, "--out", work / "run"]
export = [work / "run", "--calibrate", work / "train", "--out", work / "bundle"]
subprocess.run(["nonneg", "train", *learn], check=True)
subprocess.run(["nonneg", "export", *export], check=True)
with subprocess.Popen(["nonneg", "serve", "--model", work / "bundle", "--port", "8642"]) as server:
    with Client("http://127.0.0.1:8642", retries=8) as client:
        whole = client.model().dimensions
        for row in evaluate(work / "test", through=client, lengths=[whole, whole // 4]):
            print(f"{row.length.dimensions} dimensions, {row.mean_nnz:.0f} active: {row.report.means()}")
        z = client.embed(paths["test"]).numpy()
    server.terminate()
live = np.random.default_rng(0).choice(np.flatnonzero((z > 0).sum(axis=0) >= 8), 8, replace=False)
strongest = np.argsort(-z[:, live], axis=0)[:8].T
rows = [np.concatenate([np.asarray(Image.open(paths["test"][i])) for i in row], axis=1) for row in strongest]
Image.fromarray(np.concatenate(rows)).save(work / "dimensions.png")
