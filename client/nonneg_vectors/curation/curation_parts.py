"""Curation in one call: the parts that are asked for, each as a section of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nonneg_core.errors import DataInvalid
from nonneg_core.terminal.progress import Progress
from nonneg_vectors.curation.collection import Collection, Section, cut_alike
from nonneg_vectors.curation.comparing import compare
from nonneg_vectors.curation.doubtful_labels import by_label, doubtful, is_labelled, missed
from nonneg_vectors.curation.duplicates import between, copied, exact_copies, removed_by, similar
from nonneg_vectors.curation.neighbours import PairLimits
from nonneg_vectors.curation.overview import clustered, failing, lonely, subset
from nonneg_vectors.curation.photos import photos_of
from nonneg_vectors.search.query_and_hits import DimensionNames

PARTS = ("exact", "copies", "similar", "pixels", "outliers", "clusters", "subset", "labels", "missed", "classes")
OF_PHOTOS = {"exact", "copies", "similar", "pixels"}
OF_PAIRS = {"copies", "similar", "outliers", "missed", "classes"}
OF_LABELS = ("labels", "missed", "classes")


@dataclass(frozen=True)
class CurationOptions:
    """What is asked for."""

    parts: Sequence[str] = PARTS
    limits: PairLimits = field(default_factory=PairLimits)
    clusters: int | None = None
    subset: int = 100
    labels: str = "folder"  # the field that holds them
    names: DimensionNames = field(default_factory=dict)
    shown: Progress = None


def curate(collection: Collection, options: CurationOptions) -> list[Section]:
    """Return the sections of one collection, in the order of the parts."""
    _check_filled(collection)
    parts = set(options.parts)
    shown, limits = options.shown, limits_of(options, collection)
    photos = photos_of(collection, shown=shown) if parts & OF_PHOTOS else None
    labels = collection.labels(options.labels)
    if parts & set(OF_LABELS) and not is_labelled(labels):
        parts -= set(OF_LABELS)
    sections: dict[str, Section] = {}
    if parts & OF_PAIRS:
        thumbnails = photos.thumbnails() if photos else None
        pairs, places, cosines = compare(collection, limits, thumbnails, shown=shown)
        if photos is not None:
            exact = exact_copies(collection, photos)
            copies = copied(collection, photos, pairs, limits, removed_by(exact))
            sections["copies"] = copies
            sections["similar"] = similar(collection, photos, pairs, limits, removed_by(exact, copies))
        sections["outliers"] = lonely(collection, places, cosines, options.names)
        if is_labelled(labels):
            sections["missed"] = missed(collection, labels, places, cosines)
            sections["classes"] = by_label(collection, labels, places)
    if photos is not None:
        sections["exact"] = exact_copies(collection, photos)
        sections["pixels"] = failing(collection, photos)
    if "clusters" in parts:
        sections["clusters"] = clustered(collection, options.clusters, options.names)
    if "subset" in parts:
        sections["subset"] = subset(collection, options.subset, shown=shown)
    if "labels" in parts:
        sections["labels"] = doubtful(collection, labels, options.labels)
    return [sections[part] for part in PARTS if part in parts & set(sections)]


def curate_two(one: Collection, other: Collection, options: CurationOptions) -> list[Section]:
    """Return what of one collection is in another one too."""
    _check_filled(one)
    _check_filled(other)
    one.vectors.same_form(other.vectors)
    one, other = cut_alike(one, other)
    limits = limits_of(options, one, other)
    photos, others = (photos_of(c, shown=options.shown) for c in (one, other))
    pairs, _, _ = compare(one, limits, photos.thumbnails(), other, others.thumbnails(), shown=options.shown)
    sections = between(one, other, photos, others, pairs, limits)
    return [section for section in sections if section.part in options.parts]


def limits_of(options: CurationOptions, *collections: Collection) -> PairLimits:
    """Return what makes two photos a pair, given how much of their vectors is stored."""
    whole = all(collection.cut is None for collection in collections)
    return options.limits if whole else options.limits.of_cut_vectors()


def why_unlabelled(collection: Collection, field: str) -> str:
    """Return why the values of a field are not labels; empty where they are."""
    labels = collection.labels(field)
    if is_labelled(labels):
        return ""
    if not any(labels):
        return f"no photo has a field {field}"
    values = f"{n} values" if (n := len(set(labels))) > 1 else "one value"
    return f"{field} has {values} for {len(labels)} photos: these are not labels"


def check_labels(collection: Collection, options: CurationOptions) -> None:
    """Raise where labels are asked for by name and there are none."""
    why = why_unlabelled(collection, options.labels)
    if why:
        raise DataInvalid(
            why,
            fix="give --labels the field that holds them, or leave labels, missed and classes out of --only",
            field="labels",
            value=options.labels,
        )


def _check_filled(collection: Collection) -> None:
    if not len(collection):
        raise DataInvalid(
            f"{collection.name} holds no photo", fix="index or embed a folder that has some", value=collection.name
        )
