"""What each loss of a head keeps of a frozen backbone: nearest neighbours of held-out photos, by length.

    python benchmarks/training_losses.py PHOTOS LABELLED [--epochs 20] [--backbone efficientnet-lite0]

Heads of equal shape are trained on PHOTOS (labels are not used), one loss each, and embed LABELLED, folders a class of
other photos: the share whose nearest other photo is of its class. Beside them the backbone's own features, and the head
untrained. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import torch
from provenance import provenance

from nonneg_training.data import ImageFolder
from nonneg_training.features.feature_cache import FeatureRequest, cached_features
from nonneg_training.loop.run_health import nearest_share
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import Views, read_settings

LENGTHS = (64, 128, 256, 512, 1024)
LOSSES: dict[str, dict[str, float]] = {
    "untrained": {"head.neighbours": 1, "optimiser.lr": 1e-12, "loop.epochs": 1},
    "neighbours": {"head.neighbours": 1},
    "similarity": {"head.neighbours": 0, "head.similarity": 1},
    "contrastive": {"head.neighbours": 0, "head.contrastive": 1},
    "neighbours + contrastive": {"head.neighbours": 1, "head.contrastive": 0.1},
    "reconstruction": {"head.neighbours": 0, "head.reconstruction": 1},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("labelled", type=Path)
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    rows: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, loss in LOSSES.items():
            for seed in range(options.seeds):
                raw, found = score(options, {**loss, "seed": seed}, Path(folder) / f"{name}-{seed}")
                rows.setdefault(name, []).append(found)
                rows.setdefault("backbone", [raw] * options.seeds)
    print(f"1-NN on {options.labelled.name}, heads trained on {options.photos.name}, mean of {options.seeds} seeds")
    print(f"{'loss':26}" + "".join(f"{k:>8}" for k in LENGTHS))
    means = {name: torch.tensor(runs).mean(dim=0).tolist() for name, runs in rows.items()}
    for name, values in means.items():
        text = [f"{value:8.3f}" for value in values] if name != "backbone" else [f"{values[0]:8.3f} at full width"]
        print(f"{name:26}" + "".join(text))
    print(json.dumps({"benchmark": "training_losses", "lengths": LENGTHS, "nearest": rows, **provenance()}))


def score(options: argparse.Namespace, loss: dict[str, float], out: Path) -> tuple[list[float], list[float]]:
    """Return 1-NN of the backbone's features, and of the head's prefixes."""
    changes = {"method": "head", "data.source": str(options.photos), "model.backbone": options.backbone}
    changes |= {"model.pretrained": "DEFAULT", "model.dimensions": LENGTHS[-1], "loss.lengths": LENGTHS}
    changes |= {"head.views": 2, "head.cache": str(options.cache) if options.cache else None, "loop.batch": 256}
    changes |= {
        "loop.epochs": options.epochs,
        "health.dead_share": 1,
        "loop.monitor_images": 10,
        "health.zero_share": 1,
    }
    train(read_settings(None, {**changes, **loss}), out)
    encoder, images = load_encoder(out), ImageFolder(options.labelled)
    x = torch.from_numpy(cached_features(FeatureRequest(encoder, images, Views(), 0, 0), options.cache)[0].copy())
    labels = torch.from_numpy(images.labels)
    with torch.inference_mode():
        z = encoder.embed(x)
    return [nearest_share(x, labels)] * len(LENGTHS), [nearest_share(z[:, :k], labels) for k in LENGTHS]


if __name__ == "__main__":
    main()
