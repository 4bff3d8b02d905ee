"""Is a model adapted to your photos better than the default? `adapt_and_compare.py PHOTOS`, best with a folder a label.

Adapts in this process (no server), says what was gained and lost, and shows what both models find for some photos.
"""

import json
import subprocess
import sys
from pathlib import Path

from nonneg_client import Encoder
from nonneg_core.files.image_files import find_images

LOST = 3  # the exit code of `nonneg adapt` where labels show a loss
photos, bundle = Path(sys.argv[1]), Path("mine.bundle")
nonneg = [sys.executable, "-m", "nonneg_cli", "adapt", photos, "--out", bundle, "--replace", "--json", *sys.argv[2:]]
done = subprocess.run(nonneg, stdout=subprocess.PIPE, text=True)
if done.returncode not in (0, LOST):
    sys.exit(done.returncode)
outcome = json.loads(done.stdout)
for gain in outcome["gains"]:
    print(f"{gain['length']:>8} {gain['metric']:8} {gain['before']:.3f} -> {gain['after']:.3f}")
print(outcome["verdict"])
if outcome["bundle"] is None:
    sys.exit(f"keep {outcome['source']}")

some = find_images(photos)[:200]
for name in (outcome["source"], bundle):
    with Encoder(name) as encoder:
        vectors = encoder.embed(some, dimensions=128).numpy()
    nearest = (vectors @ vectors.T).argsort(axis=1)[:, ::-1]
    for photo in (0, len(some) // 2):
        found = ", ".join(str(some[i].relative_to(photos)) for i in nearest[photo] if i != photo)
        print(f"{name}: {some[photo].relative_to(photos)} finds {found[:80]}")
