"""From nothing to a served NCL encoder: `ncl_from_nothing.py ROOT WORK [STEPS]`, ROOT holds cifar-10-batches-py.

Trains, exports, serves, prints retrieval at two lengths; WORK/dimensions.png has the strongest images of 8 dimensions.
"""

import atexit
import socket
import subprocess
import sys
import time
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
        paths[split].append(path := work / split / images.classes[images.labels[i]] / f"{i}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        images.image(i).save(path)
train = ["nonneg", "train", "-c", "concepts", "--data", work / "train", "--size", "96", "--steps", steps]
subprocess.run([*train, "--out", work / "run"], check=True)
subprocess.run(["nonneg", "export", work / "run", "--calibrate", work / "train", "--out", work / "bundle"], check=True)
server = subprocess.Popen(["nonneg", "serve", "--model", work / "bundle", "--port", "8642"])
atexit.register(server.terminate)
while server.poll() is None and socket.socket().connect_ex(("127.0.0.1", 8642)):
    time.sleep(0.2)
with Client("http://127.0.0.1:8642") as client:
    z = client.embed(paths["test"]).numpy()
    for row in evaluate(work / "test", through=client, lengths=[z.shape[1], z.shape[1] // 4]):
        print(f"{row.length.dimensions} dimensions, {row.mean_nnz:.0f} active: {row.report.means()}")
strongest = np.argsort(-z[:, :8], axis=0)[:8].T  # of the dimensions that the ranking puts first
rows = [np.hstack([np.asarray(Image.open(paths["test"][i])) for i in row]) for row in strongest]
Image.fromarray(np.concatenate(rows)).save(work / "dimensions.png")
