"""`nonneg rank` and `nonneg quantize`: a bundle from a bundle, ranked by other photos or smaller."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft, seal
from nonneg_export.assembly.quantized_bundle import Small, evaluated, quantized
from nonneg_export.assembly.text_towers import carried_sentences, columns_of
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.calibrate.workdir import workdir
from nonneg_export.commands import options
from nonneg_export.commands.draft_to_bundle import triton_repository, write_and_show
from nonneg_export.graphs.canonical import restore_fp32
from nonneg_export.share.manifest_report import size, summary, table
from nonneg_runtime.bundle.bundle_folder import Bundle, check_free, open_bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.variants import place_of
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


# `nonneg rank`: the graph is edited, nothing is trained.


@click.command()
@click.argument("bundle", type=options.PATH, required=False)
@options.calibration_options
@options.ranking_options
@options.evaluation_options
@options.captions_option
@options.output_options
@options.name_option
def rank(bundle: Path | None, **flags: Any) -> None:
    """Rank BUNDLE (by default the default model) by your own photos.

    The graph is edited: neither torch nor the checkpoint is needed. The new bundle has a new fingerprint, because its
    vectors cannot be compared with the old ones. An order that was trained (nested), as the default model's, is kept
    unless --rank-by says otherwise: sorted by your photos its short prefixes would lose. What makes a better model for
    your photos is `nonneg adapt`.

    \b
      nonneg rank --images photos/ --out mine.bundle
    """
    old = open_bundle(bundle)
    new = write_and_show(
        lambda *_: replace(draft_of(old), name=options.named(flags)),
        flags,
        finish=lambda ranked: compose_order(ranked, old),
    )
    before = {original: i for i, original in enumerate(old.manifest.columns.original)}
    order = [before[original] for original in new.manifest.columns.original]
    if new.manifest.calibration.ranked_by == "nested":
        click.echo("the order was trained and is kept; --rank-by sorts it by your photos")
    for part in left_out(old.manifest, new.manifest):
        click.echo(f"not in the new bundle: {part}")
    rows = [(str(o.dimensions), f"{o.share:.0%}") for o in overlaps(range(len(before)), order)]
    click.echo(f"\nold order: {_head(range(len(before)))}\nnew order: {_head(order)}  (numbered by the old one)\n")
    click.echo(table(("first", "in both"), rows))


def _head(order: Sequence[int]) -> str:
    return " ".join(map(str, order[:12])) + (" …" if len(order) > 12 else "")


# `nonneg quantize`: a bundle whose encoder is smaller and faster, with what that costs.


@click.command()
@click.argument("bundle", type=options.PATH, required=False)
@click.option("--to", type=click.Choice(("int8", "bf16", "fp16")), default="int8", show_default=True)
@options.calibration_options
@click.option(
    "--min-quality", type=click.FloatRange(0, 1), default=0.8, show_default=True,
    help="Refuse when a smaller share of each photo's ten nearest neighbours is kept.",
)  # fmt: skip
@options.evaluation_options
@options.variant_options
def quantize(bundle: Path | None, to: Small, min_quality: float, **flags: Any) -> None:
    """Make BUNDLE (by default the default model) smaller or faster.

    int8: 8-bit weights and activations, static. bf16: the same weights, computed in bfloat16 through OpenVINO where the
    processor has it. fp16: weights stored as float16, computed with as before.

    Half of the photos set the ranges, the other half shows what it costs: cosine to the original, and how many of
    each photo's ten nearest neighbours stay. The new bundle has a new fingerprint.

    \b
      nonneg quantize my.bundle --images photos/ && nonneg serve --model my.bundle --precision int8
      nonneg quantize my.bundle --to fp16 --images photos/ --out small.bundle
    """
    old = open_bundle(bundle)
    out: Path = flags["out"] or place_beside(old, to)
    if to == "bf16" and flags["triton"] is not None:
        raise ConfigInvalid("--triton serves through ONNX Runtime, which computes no bf16", fix="leave one of them out")
    new, repository = quantize_and_show(old, to, out, min_quality, flags)
    before, after = old.stored, new.stored
    click.echo(f"{new.path}: encoder {size(before)} -> {size(after)}\n{summary(new.manifest)}")
    if repository is not None:
        click.echo(f"Triton model repository: {repository}")


def quantize_and_show(
    old: Bundle, to: Small, out: Path, min_quality: float, flags: dict[str, Any]
) -> tuple[Bundle, Path | None]:
    """Quantise, compare, report and write, as the flags say."""
    check_free(out, replace=flags["replace"])
    photos = options.calibration(flags)
    labelled = None if flags["evaluate"] is None else find_photos(flags["evaluate"])
    with workdir(out, flags["work"]) as work:
        with ProgressBar("comparing") as bar:
            shrunk = quantized(old, to, photos, work, min_quality=min_quality, tick=bar.move)
        if labelled is not None:
            shrunk = evaluated(shrunk, photos, labelled, work, data=flags["evaluation_data"])
        new = seal(shrunk, out, overwrite=flags["replace"])
        return new, triton_repository(new, flags["triton"])


def place_beside(old: Bundle, to: Small) -> Path:
    """Name the folder beside the bundle where the server looks; refused where the bundle holds such a form itself."""
    if any(variant.precision == to for variant in old.manifest.variants):
        raise ConfigInvalid(
            f"{old.manifest.name} holds its {to} form already, and --precision {to} serves that one: a variant beside "
            "the bundle would never be used",
            fix=f"serve it: nonneg serve --model {old.path} --precision {to}; or write another with --out",
            field="to",
            value=to,
        )
    return place_of(old.path, to)
