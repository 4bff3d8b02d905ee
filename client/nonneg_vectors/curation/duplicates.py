"""Three lists: exact copies, copies of one photo, and photos that are merely similar; in each group one photo is kept.

The best photo that is in no group yet takes all that are paired with it and in no group yet (a star; greedy, best
first). A photo that is only linked through others starts a group of its own or stays alone.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Flags, Places
from nonneg_vectors.curation.collection import Action, Collection, Group, Section, found_at
from nonneg_vectors.curation.neighbours import PairLimits, Pairs, copies
from nonneg_vectors.curation.photos import MeasuredPhotos, better, why


@dataclass(frozen=True)
class Star:
    """A group: the photo that is kept, and for each of the others the number of the pair that links them."""

    keep: int
    members: tuple[int, ...]
    pairs: tuple[int, ...]


def stars(one: Places, other: Places, order: Sequence[int] | Places) -> list[Star]:
    """Group the paired photos around the best ones; `order` has all photos, the best first."""
    pairs = np.concatenate([np.arange(len(one)), np.arange(len(one))])
    near, far = np.concatenate([one, other]), np.concatenate([other, one])
    sorting = np.argsort(near, kind="stable")
    near, far, pairs = near[sorting], far[sorting], pairs[sorting]
    taken = np.zeros(len(order), bool)
    groups = []
    for keep in np.asarray(order)[np.isin(order, near)]:
        if taken[keep]:
            continue
        span = slice(*np.searchsorted(near, [keep, keep + 1]))
        free = ~taken[far[span]]
        members, links = far[span][free], pairs[span][free]
        if len(members):
            taken[members] = taken[keep] = True
            by_number = np.argsort(members, kind="stable")
            groups.append(Star(int(keep), tuple(members[by_number].tolist()), tuple(links[by_number].tolist())))
    return sorted(groups, key=lambda star: (-len(star.members), star.keep))


# Three lists: exact copies, copies of one photo, and photos that are merely similar; in each group one is kept.

LEFT = "Photos that the lists before say to remove are not in it."
LINKED = "Each photo of a group is paired with the one that is kept; chains are not followed."
EXACT = "Files with the same bytes."
LOWER = "cosines between them are smaller, and so the limits of copies are"
FEWER = "fewer pairs reach a cosine than between whole vectors, and --similar 0.6 finds about what 0.7 finds there"


def exact_copies(collection: Collection, photos: MeasuredPhotos) -> Section:
    """Return files of the same bytes, grouped."""
    by_digest: dict[str, list[int]] = defaultdict(list)
    for i in better(photos, collection.ids):
        if (photo := photos.known[i]) is not None:
            by_digest[photo.digest].append(i)
    groups = tuple(
        _group(collection, photos, members[0], [(i, 1.0) for i in members[1:]], "remove", "the shortest path")
        for members in by_digest.values()
        if len(members) > 1
    )
    return Section("exact", "Exact copies", EXACT, groups, _gone(photos))


def copied(
    collection: Collection, photos: MeasuredPhotos, pairs: Pairs, limits: PairLimits, removed: set[str]
) -> Section:
    """Return copies of one photo among what is left when exact copies are removed."""
    chosen = copies(pairs, limits) & _left(collection, pairs, removed)
    how = (
        "The same photo in another size, cut, colour or quality: the cosine, and the agreement of the thumbnails where "
        f"they agree least (mirrored and cropped too), are at least {limits.copy_cosine} and "
        f"{limits.copy_likeness}, or {limits.crop_cosine} and {limits.crop_likeness}. {LINKED} {LEFT}"
    )
    groups = _grouped(collection, photos, pairs.where(chosen), "remove")
    return Section("copies", "Copies of one photo", how, groups, _gone(photos) + collection.cut_note(LOWER))


def similar(
    collection: Collection, photos: MeasuredPhotos, pairs: Pairs, limits: PairLimits, removed: set[str]
) -> Section:
    """Return photos that look alike among what is left when all copies are removed."""
    chosen = (pairs.cosine >= limits.similar) & ~copies(pairs, limits) & _left(collection, pairs, removed)
    how = f"Other photos that look alike: cosine at least {limits.similar}. {LINKED} {LEFT}"
    groups = _grouped(collection, photos, pairs.where(chosen), "review")
    return Section("similar", "Merely similar", how, groups, collection.cut_note(FEWER))


def between(
    one: Collection,
    other: Collection,
    photos: MeasuredPhotos,
    others: MeasuredPhotos,
    pairs: Pairs,
    limits: PairLimits,
) -> tuple[Section, Section, Section]:
    """Return the same three lists of photos of one collection that are in another one too: what leaked."""
    digests: dict[str, list[int]] = defaultdict(list)
    for j, photo in enumerate(others.known):
        if photo is not None:
            digests[photo.digest].append(j)
    exact: dict[int, list[tuple[int, float]]] = {
        i: [(j, 1.0) for j in digests[photo.digest]]
        for i, photo in enumerate(photos.known)
        if photo is not None and photo.digest in digests
    }
    bytes_equal = np.array([_equal(photos, others, i, j) for i, j in zip(pairs.one, pairs.other, strict=True)], bool)
    true = copies(pairs, limits) & ~bytes_equal
    alike = (pairs.cosine >= limits.similar) & ~copies(pairs, limits) & ~bytes_equal
    gone = _gone(photos) + _gone(others)

    def section(
        part: str, title: str, how: str, partners: dict[int, list[tuple[int, float]]], action: Action
    ) -> Section:
        groups = tuple(_leak(one, other, i, partners[i], action) for i in sorted(partners, key=lambda i: one.ids[i]))
        loss = FEWER if part == "similar" else LOWER
        notes = gone + (one.cut_note(loss) or other.cut_note(loss))
        return Section(part, f"{title}: in {one.title} and in {other.title}", how, groups, notes)

    return (
        section("exact", "Exact copies", EXACT, exact, "remove"),
        section("copies", "Copies of one photo", f"Copies of one photo, as within one folder. {_LEAK}",
                _by_first(pairs.where(true)), "remove"),
        section("similar", "Merely similar", f"Cosine at least {limits.similar}. {_LEAK}",
                _by_first(pairs.where(alike)), "review"),
    )  # fmt: skip


_LEAK = "A group is one photo of the first collection with all its partners in the second."


def _leak(one: Collection, other: Collection, i: int, partners: list[tuple[int, float]], action: Action) -> Group:
    mine = one.ids[i]
    best = max(partners, key=lambda p: p[1])
    first = found_at(one, i, action, f"also in {other.title}", other.ids[best[0]], best[1])
    rest = tuple(found_at(other, j, "keep", f"in {other.title}", mine, cosine) for j, cosine in partners)
    return Group(mine, (first, *rest))


def _by_first(pairs: Pairs) -> dict[int, list[tuple[int, float]]]:
    partners: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for i, j, cosine in zip(pairs.one.tolist(), pairs.other.tolist(), pairs.cosine.tolist(), strict=True):
        partners[i].append((j, cosine))
    return partners


def _grouped(collection: Collection, photos: MeasuredPhotos, pairs: Pairs, action: Action) -> tuple[Group, ...]:
    groups: list[Star] = stars(pairs.one, pairs.other, better(photos, collection.ids))
    return tuple(
        _group(
            collection,
            photos,
            star.keep,
            [(i, float(pairs.cosine[p])) for i, p in zip(star.members, star.pairs, strict=True)],
            action,
            "the largest, sharpest copy" if action == "remove" else "the largest, sharpest of these",
        )
        for star in groups
    )


def _group(
    collection: Collection,
    photos: MeasuredPhotos,
    keep: int,
    members: list[tuple[int, float]],
    action: Action,
    reason: str,
) -> Group:
    best_id = collection.ids[keep]
    others = tuple(
        found_at(collection, i, action, why(photos.known[keep], photos.known[i]), best_id, cosine)
        for i, cosine in members
    )
    return Group(f"{1 + len(members)} photos", (found_at(collection, keep, "keep", reason), *others))


def removed_by(*sections: Section) -> set[str]:
    """Return the photos that these lists say to remove."""
    return {f.image for section in sections for group in section.groups for f in group.findings if f.action == "remove"}


def _left(collection: Collection, pairs: Pairs, removed: set[str]) -> Flags:
    """Return which pairs are of two photos that are not removed."""
    there = np.array([name not in removed for name in collection.ids], bool)
    return np.asarray(there[pairs.one] & there[pairs.other])


def _equal(photos: MeasuredPhotos, others: MeasuredPhotos, i: int, j: int) -> bool:
    a, b = photos.known[i], others.known[j]
    return a is not None and b is not None and a.digest == b.digest


def _gone(photos: MeasuredPhotos) -> tuple[str, ...]:
    if not photos.gone:
        return ()
    return (
        f"{len(photos.gone)} photos could not be read, such as {photos.gone[0]}: they are compared by vector alone, "
        "and so are never called copies.",
    )
