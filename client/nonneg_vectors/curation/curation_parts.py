"""Curation in one call: the parts that are asked for, each as a section of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nonneg_core.arrays import Floats, Places
from nonneg_core.errors import DataInvalid
from nonneg_core.terminal.progress import Progress, ProgressBar
from nonneg_vectors.curation.clusters import FAR, NEAREST, Cluster, clusters, k_centres, outliers, usual_number
from nonneg_vectors.curation.collection import Collection, Group, Section, cut_alike, found_at
from nonneg_vectors.curation.comparing import compare
from nonneg_vectors.curation.doubtful_labels import LEARNT, by_label, doubtful, is_labelled, missed, recognised
from nonneg_vectors.curation.duplicates import between, copied, exact_copies, removed_by, similar
from nonneg_vectors.curation.neighbours import PairLimits
from nonneg_vectors.curation.photos import MeasuredPhotos, photos_of
from nonneg_vectors.curation.row_blocks import shares
from nonneg_vectors.expressions.weightings import Chance, ColumnStatistics
from nonneg_vectors.search.query_and_hits import DimensionNames, name_of

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
    labels: str | None = None  # the field that holds them; None: `folder`, where the photos tell folders apart
    names: DimensionNames = field(default_factory=dict)
    statistics: ColumnStatistics | None = None  # of the model's columns: which names hold for a photo
    shown: Progress = None

    def chance(self, collection: Collection) -> Chance | None:
        """Return what random photos have, of vectors as the collection stores them; None where it is not known."""
        stored = collection.vectors.dimensions, collection.cut
        return None if self.statistics is None else self.statistics.at(*stored)


def curate(collection: Collection, options: CurationOptions) -> list[Section]:
    """Return the sections of one collection, in the order of the parts."""
    _check_filled(collection)
    parts = set(options.parts)
    shown, limits = options.shown, limits_of(options, collection)
    photos = photos_of(collection, shown=shown) if parts & OF_PHOTOS else None
    field = options.labels or "folder"
    labels = collection.labels(field)
    if parts & set(OF_LABELS) and why_unlabelled(collection, options.labels):
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
        sections["outliers"] = lonely(collection, places, cosines, options)
        if parts & set(OF_LABELS):
            sections["missed"] = missed(collection, labels, places, cosines)
            sections["classes"] = by_label(collection, labels, places)
    if photos is not None:
        sections["exact"] = exact_copies(collection, photos)
        sections["pixels"] = failing(collection, photos)
    if "clusters" in parts:
        sections["clusters"] = clustered(collection, options)
    if "subset" in parts:
        sections["subset"] = subset(collection, options.subset, shown=shown)
    if "labels" in parts:
        sections["labels"] = doubtful(collection, labels, field)
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


def why_unlabelled(collection: Collection, name: str | None) -> str:
    """Return why the values of a field are not labels; empty where they are. Without a name, of `folder`."""
    field = name or "folder"
    labels = collection.labels(field)
    if is_labelled(labels):
        share = 1.0 if name else recognised(collection.vectors, labels)
        if share >= LEARNT:
            return ""
        return f"the photos do not tell their folders apart ({share:.0%} of a folder are recognised by the others)"
    if not any(labels):
        return f"no photo has a field {field}"
    values = f"{n} values" if (n := len(set(labels))) > 1 else "one value"
    return f"{field} has {values} for {len(labels)} photos: these are not labels"


def check_labels(collection: Collection, options: CurationOptions) -> None:
    """Raise where labels are asked for by name and there are none."""
    why = why_unlabelled(collection, options.labels or "folder")
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


# What a collection holds: clusters, outliers, a diverse subset, and photos that fail a check of their pixels.

RARE = 3  # dimensions named of an outlier
OTHERS = "of whole vectors a part of this list would be other photos"
OTHER_CLUSTERS = "whole vectors make somewhat other clusters, which agree with labels as well"
FARTHER = "of whole vectors the subset would be other photos, a little nearer to all"

MEANING = {
    "dark": "hardly anything is brighter than a fifth of white",
    "flat": "next to no contrast",
    "blurred": "no sharp edge at 256 pixels",
    "tiny": "the shorter side has fewer than 64 pixels",
    "odd_ratio": "more than three times as long as wide",
}


def clustered(collection: Collection, options: CurationOptions) -> Section:
    """Return every photo in one of some clusters, the most typical of each first."""
    names, chance = options.names, options.chance(collection)
    centres = options.clusters or usual_number(len(collection))
    partition = clusters(collection.vectors, centres, lines=None if chance is None else chance.lines)
    how = (
        f"Spherical k-means with {centres} centres; a cluster is told by the "
        "dimensions that its photos show and few others do. Most typical photos first."
    )
    rows = tuple(
        (i, len(c.members), float(c.cosines.mean()), cluster_in_words(c, names)) for i, c in enumerate(partition, 1)
    )
    groups = tuple(_cluster(collection, c, names) for c in partition)
    columns = ("cluster", "photos", "cosine to centre", "shared dimensions (inside, outside)")
    return Section("clusters", "Clusters", how, groups, collection.cut_note(OTHER_CLUSTERS), columns, rows)


def cluster_in_words(cluster: Cluster, names: DimensionNames) -> str:
    """Say by which dimensions a cluster is told."""
    return ", ".join(f"{name_of(s.dimension, names)} ({s.inside:.0%}, {s.outside:.0%})" for s in cluster.shared[:3])


def _cluster(collection: Collection, cluster: Cluster, names: DimensionNames) -> Group:
    title = ", ".join(name_of(s.dimension, names) for s in cluster.shared[:3]) or "nothing in common"
    members = zip(cluster.members.tolist(), cluster.cosines.tolist(), strict=True)
    return Group(title, tuple(found_at(collection, i, cosine=cosine) for i, cosine in members))


def lonely(collection: Collection, places: Places, cosines: Floats, options: CurationOptions) -> Section:
    """Return photos that are like no other, with what only they have."""
    chance = options.chance(collection)
    strays = outliers(cosines)
    rarity = shares(collection.vectors)
    findings = []
    for i in strays.photos.tolist():
        nearest = int(places[i, 0])
        indices, values = collection.vectors.row(i)
        telling = np.argsort(-values * np.log(1 / rarity[indices]), kind="stable")[:RARE]
        names = options.names if chance is None else chance.shown(options.names, indices.tolist(), values.tolist())
        has = ", ".join(f"{name_of(int(indices[t]), names)} (in {rarity[indices[t]]:.1%})" for t in telling)
        closest = collection.ids[nearest] if nearest >= 0 else ""
        why = f"has {has}" if len(indices) else "its vector is zero: no dimension is active"
        unusual = bool(strays.closeness[i] < strays.bound)
        findings.append(found_at(collection, i, "review" if unusual else "", why, closest, float(cosines[i, 0])))
    how = (
        f"The hundredth of the photos with the least mean cosine to their {NEAREST} nearest, and all below "
        f"{strays.bound:.3f} ({FAR:g} robust standard deviations under the median): these are to review. The cosine is "
        "that to the nearest photo."
    )
    groups = (Group(f"{len(findings)} photos", tuple(findings)),) if findings else ()
    return Section("outliers", "Outliers", how, groups, collection.cut_note(OTHERS))


def subset(collection: Collection, number: int, *, shown: Progress = None) -> Section:
    """Return some photos that stand for all."""
    with ProgressBar("choosing", min(number, len(collection)), shown=shown) as bar:
        centres = k_centres(collection.vectors, number, bar.move)
    standing = np.bincount(centres.nearest[centres.nearest >= 0], minlength=len(collection))
    findings = tuple(
        found_at(collection, i, "choose", f"nearest to {standing[i]} photos") for i in centres.chosen.tolist()
    )
    how = (
        "Greedy k-centre: from the photo nearest to the mean on, each next one is the farthest from all chosen before."
    )
    notes = collection.cut_note(FARTHER)
    if findings:
        notes += (f"No photo has a cosine below {centres.cosine.min():.3f} to the chosen one nearest to it.",)
    groups = (Group(f"{len(findings)} of {len(collection)} photos", findings),) if findings else ()
    return Section("subset", "A diverse subset", how, groups, notes)


def failing(collection: Collection, photos: MeasuredPhotos) -> Section:
    """Return photos that fail a check of their pixels, by check."""
    groups = []
    for check, meaning in MEANING.items():
        findings = []
        for i, photo in enumerate(photos.known):
            if photo is not None and check in photo.checks.failed():
                c = photo.checks
                why = (
                    f"{c.width} x {c.height}, sharpness {c.sharpness:.3f}, brightness {c.brightness:.2f}, "
                    f"contrast {c.contrast:.3f}"
                )
                findings.append(found_at(collection, i, "review", why))
        if findings:
            groups.append(Group(f"{check}: {meaning}", tuple(findings)))
    notes = (f"{len(photos.gone)} photos could not be read, such as {photos.gone[0]}.",) if photos.gone else ()
    how = "Measured on the pixels, without the model."
    return Section("pixels", "Pixel checks", how, tuple(groups), notes)
