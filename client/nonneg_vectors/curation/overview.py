"""What a collection holds: clusters, outliers, a diverse subset, and photos that fail a check of their pixels."""

import numpy as np

from nonneg_core.arrays import Floats, Places
from nonneg_core.terminal.progress import Progress, ProgressBar
from nonneg_vectors.curation.clusters import FAR, NEAREST, Cluster, clusters, k_centres, outliers, usual_number
from nonneg_vectors.curation.collection import Collection, Group, Section, found_at
from nonneg_vectors.curation.photos import MeasuredPhotos
from nonneg_vectors.curation.row_blocks import shares
from nonneg_vectors.search.query_and_hits import DimensionNames, name_of

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


def clustered(collection: Collection, number: int | None, names: DimensionNames) -> Section:
    """Return every photo in one of some clusters, the most typical of each first."""
    centres = number or usual_number(len(collection))
    partition = clusters(collection.vectors, centres)
    how = (
        f"Spherical k-means with {centres} centres; a cluster is told by the "
        "dimensions that are active in its photos and rarely elsewhere. Most typical photos first."
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


def lonely(collection: Collection, places: Places, cosines: Floats, names: DimensionNames) -> Section:
    """Return photos that are like no other, with what only they have."""
    strays = outliers(cosines)
    rarity = shares(collection.vectors)
    findings = []
    for i in strays.photos.tolist():
        nearest = int(places[i, 0])
        indices, values = collection.vectors.row(i)
        telling = np.argsort(-values * np.log(1 / rarity[indices]), kind="stable")[:RARE]
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
