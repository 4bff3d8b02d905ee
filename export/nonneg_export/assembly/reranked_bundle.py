"""An existing bundle, ranked by other photos: the graph is edited, nothing is trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft
from nonneg_export.assembly.text_towers import carried_sentences, columns_of
from nonneg_export.graphs.canonical import restore_fp32
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.words.lexicon import LEXICON, Lexicon, lexicon_of
from nonneg_runtime.words.names import NAMES, Names, read_names
from nonneg_training.onnx_backbone.onnx_graph import load_graph


@dataclass(frozen=True)
class Overlap:
    """How many of the old first k columns are still among the new first k."""

    dimensions: int
    share: float


def draft_of(bundle: Bundle) -> Draft:
    """Return a bundle's encoder as a draft: its present order is the one to start from."""
    manifest = bundle.manifest
    if manifest.precision == "bf16":
        raise ConfigInvalid(
            f"{bundle.path} is computed in bf16", fix="rank the bundle it was made from, then quantize", field="bundle"
        )
    return Draft(
        model=restore_fp32(load_graph(bundle.encoder)),
        view=manifest.view,
        name=manifest.name,
        version=manifest.version,
        activation=manifest.activation,
        provenance=manifest.provenance,
        description=manifest.description,
        derived_from=manifest.fingerprint,
        precision=manifest.precision,
        nested=manifest.calibration.ranked_by == "nested",
        text=columns_of(bundle),
    )


def compose_order(ranked: RankedDraft, bundle: Bundle) -> RankedDraft:
    """Return the same with names and words where their columns went, each column traced back to the encoder's own."""
    before = bundle.manifest.columns.original
    columns = ranked.manifest.columns
    original = tuple(before[i] for i in columns.original)
    changes = {
        "columns": columns.model_copy(update={"original": original}),
        **carried_words(bundle, columns.original, ranked.encoder.parent),
        "sentences": carried_sentences(bundle, ranked.encoder.parent, columns.original),
        **(_said_of_the_order(ranked, bundle) if columns.original != tuple(range(len(before))) else {}),
    }
    return replace(ranked, manifest=ranked.manifest.model_copy(update=changes))


def _said_of_the_order(ranked: RankedDraft, bundle: Bundle) -> dict[str, Any]:
    """Return a description and a note that are true of columns in another order than the bundle's."""
    old, new = bundle.manifest, ranked.manifest
    rule = new.calibration.ranked_by
    note = f"{old.provenance.note}; its columns were put in another order since" if old.provenance.note else ""
    return {
        "description": f"{old.name} {old.version} with its columns ranked by {rule} on other photos",
        "provenance": old.provenance.model_copy(update={"note": note}),
    }


def left_out(old: Manifest, new: Manifest) -> list[str]:
    """Return in words what the first has and the second, ranked from it, has not."""
    forms = ", ".join(variant.precision for variant in old.variants)
    parts = {
        f"the form {forms}: `nonneg quantize` makes one": old.variants and not new.variants,
        "the head's own file, which `nonneg adapt` starts from": old.head and not new.head,
        "the columns of known words, which need all columns": old.lexicon and not new.lexicon,
        "the certificate: `nonneg certify` measures one": old.certificate and not new.certificate,
    }
    return [part for part, gone in parts.items() if gone]


def overlaps(old: Sequence[int], new: Sequence[int]) -> list[Overlap]:
    """Compare old and new order at halving lengths."""
    lengths = [2**p for p in range(20, 2, -1) if 2**p < len(new)]
    return [Overlap(k, len(set(old[:k]) & set(new[:k])) / k) for k in lengths]


# Names and words of a bundle whose columns stand in another order: every entry goes where its column went.

Places = dict[int, int]  # the new place of an old column; none for one that was left out


def carried_words(bundle: Bundle, order: Sequence[int], work: Path) -> dict[str, Any]:
    """Write the names and words of a bundle for columns in this order; return what the manifest says of them."""
    places = {old: new for new, old in enumerate(order)}
    entries: dict[str, Any] = {}
    if record := bundle.manifest.names:
        names = moved_names(read_names(bundle.path / record.file, bundle.manifest.dimensions), places)
        names.write(work / NAMES)
        first = sum(name.dimension < 512 for name in names.names)
        checked = sum(name.precision is not None for name in names.names)
        entries["names"] = record.model_copy(
            update={"file": NAMES, "named": len(names.names), "checked": checked, "first_512": first}
        )
    if (record_of_words := bundle.manifest.lexicon) and len(
        places
    ) == bundle.manifest.dimensions:  # words may need any column
        lexicon = lexicon_of(bundle)
        assert lexicon is not None
        moved_lexicon(lexicon, places).write(work / LEXICON)
        entries["lexicon"] = record_of_words.model_copy(update={"file": LEXICON})
    return entries


def moved_names(names: Names, places: Places) -> Names:
    """Return the names of the columns that are kept, in their new order."""
    moved = [
        name.model_copy(update={"dimension": places[name.dimension]})
        for name in names.names
        if name.dimension in places
    ]
    moved.sort(key=lambda name: name.dimension)
    return names.model_copy(update={"dimensions": len(places), "names": tuple(moved)})


def moved_lexicon(lexicon: Lexicon, places: Places) -> Lexicon:
    """Return the same words for columns that all have a new place."""
    classes = tuple(
        each.model_copy(update={"dimensions": tuple(places[dimension] for dimension in each.dimensions)})
        for each in lexicon.classes
    )
    return lexicon.model_copy(update={"classes": classes})
