"""Curation in one call: the parts that are asked for, each as a section of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nonneg_client.curation.collection import Collection, cut_alike
from nonneg_client.curation.comparing import compare
from nonneg_client.curation.duplicates import between, copied, exact_copies, removed_by, similar
from nonneg_client.curation.findings import Section
from nonneg_client.curation.labelled import by_label, doubtful, is_labelled, missed
from nonneg_client.curation.overview import clustered, failing, lonely, subset
from nonneg_client.curation.photos import photos_of
from nonneg_client.model_of_vectors import DimensionNames
from nonneg_core.curation.neighbours import PairLimits
from nonneg_core.errors import DataInvalid
from nonneg_core.progress import Progress

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


def curate(collection: Collection, wishes: CurationOptions) -> list[Section]:
    """Return the sections of one collection, in the order of the parts."""
    _check_filled(collection)
    parts = set(wishes.parts)
    shown, limits = wishes.shown, limits_of(wishes, collection)
    photos = photos_of(collection, shown=shown) if parts & OF_PHOTOS else None
    labels = collection.labels(wishes.labels)
    if parts & set(OF_LABELS) and not is_labelled(labels):
        parts -= set(OF_LABELS)
    found: dict[str, Section] = {}
    if parts & OF_PAIRS:
        thumbnails = photos.thumbnails() if photos else None
        pairs, places, cosines = compare(collection, limits, thumbnails, shown=shown)
        if photos is not None:
            exact = exact_copies(collection, photos)
            copies = copied(collection, photos, pairs, limits, removed_by(exact))
            found["copies"] = copies
            found["similar"] = similar(collection, photos, pairs, limits, removed_by(exact, copies))
        found["outliers"] = lonely(collection, places, cosines, wishes.names)
        if is_labelled(labels):
            found["missed"] = missed(collection, labels, places, cosines)
            found["classes"] = by_label(collection, labels, places)
    if photos is not None:
        found["exact"] = exact_copies(collection, photos)
        found["pixels"] = failing(collection, photos)
    if "clusters" in parts:
        found["clusters"] = clustered(collection, wishes.clusters, wishes.names)
    if "subset" in parts:
        found["subset"] = subset(collection, wishes.subset, shown=shown)
    if "labels" in parts:
        found["labels"] = doubtful(collection, labels, wishes.labels)
    return [found[part] for part in PARTS if part in parts & set(found)]


def curate_two(one: Collection, other: Collection, wishes: CurationOptions) -> list[Section]:
    """Return what of one collection is in another one too."""
    _check_filled(one)
    _check_filled(other)
    one.vectors.same_form(other.vectors)
    one, other = cut_alike(one, other)
    limits = limits_of(wishes, one, other)
    photos, others = photos_of(one, shown=wishes.shown), photos_of(other, shown=wishes.shown)
    pairs, _, _ = compare(one, limits, photos.thumbnails(), other, others.thumbnails(), shown=wishes.shown)
    sections = between(one, other, photos, others, pairs, limits)
    return [section for section in sections if section.part in wishes.parts]


def limits_of(wishes: CurationOptions, *collections: Collection) -> PairLimits:
    """Return what makes two photos a pair, given how much of their vectors is stored."""
    whole = all(collection.cut is None for collection in collections)
    return wishes.limits if whole else wishes.limits.of_cut_vectors()


def why_unlabelled(collection: Collection, field: str) -> str:
    """Return why the values of a field are not labels; empty where they are."""
    labels = collection.labels(field)
    if is_labelled(labels):
        return ""
    if not any(labels):
        return f"no photo has a field {field}"
    values = f"{n} values" if (n := len(set(labels))) > 1 else "one value"
    return f"{field} has {values} for {len(labels)} photos: these are not labels"


def check_labels(collection: Collection, wishes: CurationOptions) -> None:
    """Raise where labels are asked for by name and there are none."""
    why = why_unlabelled(collection, wishes.labels)
    if why:
        raise DataInvalid(
            why,
            fix="give --labels the field that holds them, or leave labels, missed and classes out of --only",
            field="labels",
            value=wishes.labels,
        )


def _check_filled(collection: Collection) -> None:
    if not len(collection):
        raise DataInvalid(
            f"{collection.name} holds no photo", fix="index or embed a folder that has some", value=collection.name
        )
