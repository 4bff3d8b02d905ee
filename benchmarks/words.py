"""Search by words: the names of classes and of groups as queries on labelled photos, by nothing but the lexicon.

    nonneg embed caltech101/ -o caltech101.npz           # and other sets: folders named by ImageNet's wnid, or pets
    python benchmarks/words.py caltech101.npz --other mini-imagenet.npz --other pets.npz

A class is asked by its folder's name, or by the word that CALLED gives it; every class whose word the lexicon knows
counts, none is dropped. P@10: the share of the class among the ten photos with the largest cosine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_client import Embeddings
from nonneg_core.errors import WordsUnknown
from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.words.text_vector import vector_of
from research.models.wordnet import PLACE, WordNet, read_wordnet

CALLED = {  # of Caltech-101's folders, those whose name is not a word for what they show
    "car_side": "car", "cougar_body": "cougar", "cougar_face": "cougar", "crocodile_head": "crocodile",
    "flamingo_head": "flamingo", "rhino": "rhinoceros", "water_lilly": "water lily", "Faces": "face",
    "Faces_easy": "face", "hawksbill": "hawksbill turtle", "inline_skate": "roller skate",
}  # fmt: skip
ONE = ("crocodile", "crocodile_head"), ("flamingo", "flamingo_head"), ("cougar_body", "cougar_face")  # asked alike
GROUPS = {  # of Caltech-101's folders
    "dog": ["dalmatian"],
    "bird": ["emu", "flamingo", "flamingo_head", "ibis", "pigeon", "rooster"],
    "vehicle": ["airplanes", "car_side", "ferry", "helicopter", "ketch", "Motorbikes", "schooner", "wheelchair"],
    "furniture": ["chair", "windsor_chair"],
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("caltech")
    arguments.add_argument("--other", action="append", default=[])
    arguments.add_argument("--bundle", default="photo")
    arguments.add_argument("--wordnet", type=Path, default=PLACE, help="its database files")
    given = arguments.parse_args()
    bundle, wordnet = open_bundle(given.bundle), read_wordnet(given.wordnet)
    classes = {}
    z, labels = read(given.caltech)
    for label in sorted(set(labels)):
        same = next((pair for pair in ONE if label in pair), (label,))
        try:
            classes[label] = precision(z, bundle, CALLED.get(label, label), np.isin(labels, same))
        except WordsUnknown:
            continue
    print(table(["class", "P@10"], sorted(classes.items(), key=lambda found: found[1])[:12]))
    groups = {}
    for path in [given.caltech, *given.other]:
        z, labels = read(path)
        for group, folders in GROUPS.items():
            right = np.isin(labels, members(wordnet, set(labels), group) if path != given.caltech else folders)
            if right.sum() >= 10:
                groups[f"{group}, {path}"] = precision(z, bundle, group, right)
    print(table(["group", "P@10"], list(groups.items())))
    means = {group: np.mean([p for name, p in groups.items() if name.startswith(group)]) for group in GROUPS}
    answer = {
        "classes": len(classes),
        "p_at_10": round(float(np.mean(list(classes.values()))), 3),
        "at_least_.6": round(float(np.mean([p >= 0.6 for p in classes.values()])), 3),
        "groups": {group: round(float(p), 3) for group, p in means.items()},
        "fingerprint": bundle.manifest.fingerprint,
    }
    print(json.dumps(answer))


def read(path: str) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Return vectors and the folders that their photos lie in."""
    held = Embeddings.load(path)
    return held.numpy(), np.array([name.split("/")[0] for name in held.ids or ()])


def precision(z: NDArray[np.float32], bundle: Bundle, word: str, right: NDArray[np.bool_]) -> float:
    """Return the share of right ones among the ten nearest to a word; a photo without anything of it is a wrong one."""
    scores = z @ vector_of(bundle, word.replace("_", " ")).vector
    nearest = np.argsort(-scores, kind="stable")[:10]
    return float((right[nearest] & (scores[nearest] > 0)).mean())


def members(wordnet: WordNet, labels: Iterable[str], group: str) -> list[str]:
    """Return the labels that belong to a group: ImageNet's wnids below it; of the pets, the dogs."""
    synset = wordnet.senses[group][0]
    below = [label for label in labels if label in wordnet.synsets and synset in wordnet.above(label)]
    return below + (PETS_DOGS if group == "dog" else [])


PETS_DOGS = [
    "american_bulldog", "american_pit_bull_terrier", "basset_hound", "beagle", "boxer", "chihuahua",
    "english_cocker_spaniel", "english_setter", "german_shorthaired", "great_pyrenees", "havanese", "japanese_chin",
    "keeshond", "leonberger", "miniature_pinscher", "newfoundland", "pomeranian", "pug", "saint_bernard", "samoyed",
    "scottish_terrier", "shiba_inu", "staffordshire_bull_terrier", "wheaten_terrier", "yorkshire_terrier",
]  # fmt: skip


if __name__ == "__main__":
    main()
