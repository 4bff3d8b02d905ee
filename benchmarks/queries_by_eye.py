"""Plain queries on photos without labels, to be judged by eye: a contact sheet each, and the list of hits.

    nonneg index freephotos -o freephotos.index
    python benchmarks/queries_by_eye.py freephotos.index sheets

The lists are below; what was judged stands in research/models/shipped_models/queries_by_eye.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from nonneg_client.commands.contact_sheets import write_sheet
from nonneg_client.embedder import local
from nonneg_client.search import Index

QUERIES = [
    "a red flower", "sunset at the beach", "old car", "child", "wedding", "snow", "a bird on a branch", "city at night",
    "food on a plate", "mountain lake", "trees in a forest", "a cat", "a horse in a field", "a boat on the water",
    "a cup of coffee", "a smiling woman", "a dog in the grass", "a butterfly", "a waterfall", "a computer on a desk",
    "a bridge", "an old building", "a man riding a bicycle", "people in a street", "autumn leaves",
]  # fmt: skip
_NOUNS = """
sunset snow people beach tree sky city wedding child baby woman man girl boy family crowd street road car bus train
bicycle motorcycle boat ship airplane bridge building house church castle tower window door room kitchen bed table
chair sofa lamp book computer phone camera clock food fruit vegetable bread cake coffee wine flower rose garden grass
leaf forest mountain hill river lake sea wave waterfall cloud rain sun moon fire dog cat horse cow sheep bird fish
butterfly
"""
NOUNS = _NOUNS.split()
OF_A_SHOP = [
    "red dress", "leather bag", "toy car", "running shoes", "wooden table", "blue jeans", "gold ring", "coffee mug",
    "sunglasses", "winter jacket", "office chair", "desk lamp", "white sofa", "kitchen knife", "tea pot", "flower vase",
    "wrist watch", "straw hat", "picture frame", "candle holder",
]  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("index")
    arguments.add_argument("sheets", type=Path)
    given = arguments.parse_args()
    given.sheets.mkdir(parents=True, exist_ok=True)
    with local() as encoder, Index.open(given.index) as index:
        for texts, count in ((QUERIES, 10), (NOUNS, 5), (OF_A_SHOP, 5)):
            for text in texts:
                hits = index.search(f'"{text}"', count, through=encoder)
                write_sheet(given.sheets / f"{text}.html", text, hits, root=index.description.root)
                print(json.dumps({"text": text, "hits": [hit.id for hit in hits]}))


if __name__ == "__main__":
    main()
