"""The revisited Oxford and Paris sets, scored as their authors do: `python -m research.landmarks GROUND_TRUTH.json`.

The ground truth is their published one as JSON; theirs is a pickle, which this package does not open.
It holds `{"imlist": [names], "qimlist": [names], "gnd": [{"bbx": [x1, y1, x2, y2], "easy": [..], "hard": [..], ...}]}`.
The images lie beside it as `jpg/NAME.jpg`. Junk is taken out of a list before it is scored. AP is the area under the
precision-recall line by trapezoids, as in their own code, which is not the AP of `metrics`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_client.commands.embedder_options import EmbedderOptions, embeds, read_lengths
from nonneg_core.errors import DataInvalid
from nonneg_core.files.image_files import read_image
from nonneg_core.pixels.decode import decode
from nonneg_core.terminal.tables import table
from nonneg_vectors.evaluation.ranking import rank
from nonneg_vectors.evaluation.retrieval import Length, as_queries, cut_to_length, grid

# What counts as found, and what is left out, in each protocol.
PROTOCOLS = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}


@dataclass(frozen=True)
class LandmarkQuery:
    """One question: a picture, the part of it that is asked for, and the gallery's answers by kind."""

    path: Path
    box: tuple[float, float, float, float] | None
    answers: dict[str, frozenset[int]]

    def picture(self) -> Image.Image:
        """Return the part of the picture that is asked for."""
        image = decode(read_image(self.path))
        if self.box is None:
            return image
        left, top, right, bottom = self.box
        return image.crop((round(left), round(top), round(right), round(bottom)))


@dataclass(frozen=True)
class GroundTruth:
    """A gallery and the questions to it."""

    gallery: tuple[Path, ...]
    queries: tuple[LandmarkQuery, ...]


def read_ground_truth(path: Path) -> GroundTruth:
    """Return the ground truth in a JSON file."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        gallery = tuple(_image(path, name) for name in given["imlist"])
        queries = tuple(
            _query(_image(path, name), truth) for name, truth in zip(given["qimlist"], given["gnd"], strict=True)
        )
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read ({error.strerror})", fix="check the path") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataInvalid(
            f"{path} is not ground truth ({type(error).__name__}: {error})",
            fix="give imlist, qimlist and gnd as JSON",
        ) from error
    if any(i >= len(gallery) for query in queries for answers in query.answers.values() for i in answers):
        raise DataInvalid(f"{path} names answers outside imlist", fix="check gnd")
    return GroundTruth(gallery, queries)


def score(gallery: NDArray[Any], queries: NDArray[Any], truth: GroundTruth) -> dict[str, dict[str, float]]:
    """Return mAP and P@k of each protocol; a question without an answer in a protocol is left out of it."""
    everything = np.full(len(queries), len(gallery))
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROTOCOLS}
    for ranked in rank(queries, gallery, everything):
        answers = truth.queries[ranked.query].answers
        listed = ranked.order[ranked.scores > 0].tolist()  # what shares no dimension is not found
        for name, (kinds, left_out) in PROTOCOLS.items():
            good = frozenset().union(*(answers[kind] for kind in kinds))
            junk = frozenset().union(*(answers[kind] for kind in left_out))
            if good:
                hits = [i in good for i in listed if i not in junk]
                figures[name].append((area_by_trapezoids(hits, len(good)), sum(hits[:1]), sum(hits[:10]) / 10))
    return {
        name: dict(zip(("mAP", "P@1", "P@10"), np.mean(scores, axis=0).tolist(), strict=True))
        | {"queries": len(scores)}
        for name, scores in figures.items()
        if scores
    }


def area_by_trapezoids(hits: list[bool], relevant: int) -> float:
    """Return the area under precision over recall, by trapezoids."""
    places = np.flatnonzero(hits)
    before = np.arange(len(places)) / np.maximum(places, 1)  # the precision just before each hit
    before[: (places[:1] == 0).sum()] = 1.0
    at = np.arange(1, len(places) + 1) / (places + 1)
    return float((before + at).sum() / 2 / relevant)


def _query(path: Path, truth: dict[str, Any]) -> LandmarkQuery:
    box = truth.get("bbx")
    answers = {kind: frozenset(int(i) for i in truth.get(kind, ())) for kind in ("easy", "hard", "junk")}
    if box is None:
        return LandmarkQuery(path, None, answers)
    left, top, right, bottom = (float(side) for side in box)
    return LandmarkQuery(path, (left, top, right, bottom), answers)


def _image(path: Path, name: str) -> Path:
    return path.parent / "jpg" / (name if Path(name).suffix else f"{name}.jpg")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--lengths", callback=read_lengths, metavar="N,N:M,…", help="Dimensions; N:M keeps the M largest of N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def landmarks(path: Path, lengths: list[Length] | None, as_json: bool, through: EmbedderOptions) -> None:
    """Evaluate by the protocols of the revisited Oxford and Paris sets."""
    if any(length.reranked for length in lengths or ()):
        raise click.UsageError("landmarks are not re-ranked: leave the + out of --lengths")
    truth = read_ground_truth(path)
    with through.opened() as client:
        gallery = client.embed(truth.gallery)
        queries = client.embed(query.picture() for query in truth.queries)
    gallery.same_form(queries)
    figures = {
        str(length): score(cut_to_length(gallery.numpy(), length), as_queries(queries.numpy(), length), truth)
        for length in lengths or grid(gallery.dimensions)
    }
    if as_json:
        click.echo(json.dumps({"data": str(path), "fingerprint": gallery.fingerprint, "lengths": figures}))
        return
    lines: list[list[Any]] = [
        [length, protocol, *(scores[name] for name in ("mAP", "P@1", "P@10")), int(scores["queries"])]
        for length, protocols in figures.items()
        for protocol, scores in protocols.items()
    ]
    click.echo(table(["length", "protocol", "mAP", "P@1", "P@10", "queries"], lines))


if __name__ == "__main__":
    landmarks()
