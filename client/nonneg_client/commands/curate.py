"""`nonneg curate`: an index -> duplicates, clusters, outliers, a subset, doubtful labels; no photo is touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import DEFAULT_BUNDLE
from nonneg_core.terminal.tables import json_line, printable, table

if TYPE_CHECKING:
    from nonneg_vectors.curation.collection import Collection, Section
    from nonneg_vectors.curation.curation_parts import CurationOptions

PARTS = ("exact", "copies", "similar", "pixels", "outliers", "clusters", "subset", "labels", "missed", "classes")
OF_TWO = ("exact", "copies", "similar")
OF_LABELS = ("labels", "missed", "classes")
CONCERNS = {
    "similar": ("similar",),
    "clusters": ("clusters",),
    "subset": ("subset",),
    "labels": OF_LABELS,
    "bundle": ("outliers", "clusters"),
}  # the parts that an option says something about
named_by = click.option(
    "--bundle", metavar="FOLDER", help="Bundle whose names the dimensions get, if not the default's."
)
GROUPS = 20  # of a part that the table shows
PHOTOS = 6  # of a group that the table shows


def _parts(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Read copies,clusters as these parts."""
    parts = tuple(part.strip() for part in text.split(",")) if text else PARTS
    for part in parts:
        if part not in PARTS:
            raise click.BadParameter(f"{part!r} is not one of {', '.join(PARTS)}")
    return parts


@click.command()
@click.argument("index", type=click.Path(exists=True, path_type=Path))
@click.option("--only", callback=_parts, metavar="PART,…", help=f"Of {', '.join(PARTS)}; without it all.")
@click.option("--against", type=click.Path(exists=True, path_type=Path), help="What of INDEX is in this one too.")
@click.option(
    "--similar", type=click.FloatRange(0, 1, min_open=True), default=0.7, show_default=True,
    help="Cosine from which photos look alike.",
)  # fmt: skip
@click.option("--clusters", type=click.IntRange(min=1), help="How many to look for; otherwise by the photos' number.")
@click.option("--subset", type=click.IntRange(min=1), default=100, show_default=True, help="Photos of the subset.")
@click.option(
    "--labels", metavar="FIELD", help="Field that holds the labels; without it `folder`, if folders can be told apart."
)
@click.option(
    "--where",
    multiple=True,
    metavar="COND",
    help="Only photos of INDEX with folder=cats, dark!=true, width>=640; repeatable.",
)
@click.option("--html", type=click.Path(path_type=Path), help="Write a contact sheet to work with.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write every photo with its action.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--list", "action", type=click.Choice(["remove", "review", "choose", "keep"]),
    help="Print only the photos with this action, one a line.",
)  # fmt: skip
@click.option("-0", "--null", is_flag=True, help="With --list: end each path with a zero byte, for xargs -0.")
@named_by
@click.option("--quiet", is_flag=True, help="No progress bars.")
def curate(
    index: Path,
    only: tuple[str, ...],
    against: Path | None,
    similar: float,
    clusters: int | None,
    subset: int,
    labels: str | None,
    where: tuple[str, ...],
    html: Path | None,
    csv_file: Path | None,
    as_json: bool,
    action: str | None,
    null: bool,
    bundle: str | None,
    quiet: bool,
) -> None:
    """Put the photos of INDEX in order: what is double, alike, alone, unusable, or wrongly labelled.

    INDEX is the folder of an index, or a file that `nonneg embed` wrote. Photos are only read; nothing is deleted or
    moved. A run that is stopped goes on where it was.

    \b
      nonneg curate photos.index --html photos.html
      nonneg curate photos.index --only exact,copies --list remove -0 | xargs -0 -r mv -t aside/
      nonneg curate train.index --against val.index --csv leaks.csv
      nonneg curate photos.index --only subset --subset 500 --list choose
    """
    from nonneg_client.model_of_vectors import names_of, statistics_of
    from nonneg_vectors.curation.collection import read_collection
    from nonneg_vectors.curation.curation_parts import CurationOptions
    from nonneg_vectors.curation.neighbours import PairLimits

    _check(only, against, action, null)
    collection = read_collection(index).where(where)
    made_by = collection.vectors.fingerprint, None if bundle == DEFAULT_BUNDLE else bundle
    names, statistics = names_of(*made_by), statistics_of(*made_by)
    alike = PairLimits(similar=similar)
    shown = False if quiet else None
    options = CurationOptions(only, alike, clusters, subset, _labels(only, labels), names, statistics, shown)
    if against is None:
        _look_at_labels(collection, options)
    other = None if against is None else read_collection(against)
    sections = sections_of(collection, other, options)
    title = collection.title if other is None else f"{collection.title} against {other.title}"
    write_files(sections, csv_file, html, title, [c for c in (collection, other) if c], shown=False if quiet else None)
    if action is not None:
        print_names(sections, action, null=null)
    elif as_json:
        print_json(index, sections)
    else:
        show(sections)


def sections_of(collection: Collection, other: Collection | None, options: CurationOptions) -> list[Section]:
    """Return what one collection holds, or what of it the other holds too."""
    from nonneg_core.process.long_runs import Interrupted
    from nonneg_vectors.curation.curation_parts import curate as curated
    from nonneg_vectors.curation.curation_parts import curate_two

    try:
        return curated(collection, options) if other is None else curate_two(collection, other, options)
    except Interrupted as interrupted:
        click.echo(f"{interrupted}: what was compared is kept; the same command goes on", err=True)
        raise SystemExit(interrupted.exit_code) from None


def print_json(index: Path, sections: list[Section]) -> None:
    """Print the sections as one JSON object."""
    from nonneg_vectors.curation.collection import as_json

    click.echo(json_line({"index": str(index), "sections": as_json(sections)}))


def print_names(sections: list[Section], action: str, *, null: bool) -> None:
    """Print the photos with this action, one a line or each ended by a zero byte."""
    from nonneg_vectors.curation.collection import listed

    for name in listed(sections, action):
        click.echo(printable(name) if sys.stdout.isatty() else name, nl=not null)  # programs get names as they are
        if null:
            click.echo("\0", nl=False)


def write_files(
    sections: list[Section],
    csv_file: Path | None,
    html: Path | None,
    title: str,
    collections: list[Collection],
    *,
    shown: bool | None,
) -> None:
    """Write the files that were asked for: a table of every photo, and a contact sheet."""
    if csv_file is not None:
        from nonneg_vectors.curation.collection import write_csv

        write_csv(csv_file, sections)
    if html is not None:
        from nonneg_client.commands.contact_sheets import write_page

        write_page(html, title, sections, *collections, shown=shown)


def _check(only: tuple[str, ...], against: Path | None, action: str | None, null: bool) -> None:
    """Raise for options that do not go together: none is ignored."""
    alone = [part for part in only if part not in OF_TWO]
    if against is not None and _typed("only") and alone:
        raise click.UsageError(f"{alone[0]} is of one index: beside --against ask for {', '.join(OF_TWO)}")
    selection = only if against is None else [part for part in only if part in OF_TWO]
    for option, parts in CONCERNS.items():
        if _typed(option) and not set(parts) & set(selection):
            beside = "--only" if against is None else "--against"
            raise click.UsageError(
                f"--{option} is of {', '.join(parts)}, which {beside} leaves out: leave --{option} out, or ask for them"
            )
    if null and action is None:
        raise click.UsageError("-0 goes with --list")


def _typed(option: str) -> bool:
    """Return whether an option was given."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


def _look_at_labels(collection: Collection, options: CurationOptions) -> None:
    """Raise where there are no labels and something asks for them; say what is left out where nothing does."""
    from nonneg_vectors.curation.curation_parts import check_labels, why_unlabelled

    parts = [part for part in OF_LABELS if part in options.parts]
    if not parts:
        return
    if options.labels:
        check_labels(collection, options)
    elif why := why_unlabelled(collection, None):
        click.echo(printable(f"{', '.join(parts)} are left out: {why} (--labels FIELD names those that are)"), err=True)
    else:
        click.echo("Folder names are taken for labels: the photos tell them apart", err=True)


def _labels(parts: tuple[str, ...], given: str | None) -> str | None:
    """Return the field that was named, or `folder` where parts of labels were."""
    return given or ("folder" if _typed("only") and set(parts) & set(OF_LABELS) else None)


def show(sections: list[Section]) -> None:
    """Print the sections as tables: of each the first groups, of each group the first photos."""
    for section in sections:
        click.echo(click.style(printable(section.title), bold=True) + f": {_size(section)}")
        click.echo(section.how)
        for note in section.notes:
            click.echo(printable(note))
        if section.rows:
            click.echo(table(section.columns, section.rows[: GROUPS * PHOTOS]))
        elif section.groups:
            click.echo(table(("group", "action", "image", "cosine", "why"), _lines(section)))
        _rest(section)
        click.echo()


def _size(section: Section) -> str:
    if section.rows:
        return f"{len(section.rows)}"
    groups = "1 group" if len(section.groups) == 1 else f"{len(section.groups)} groups"
    return f"{section.concerned()} photos in {groups}" if section.groups else "none"


def _lines(section: Section) -> list[tuple[Any, ...]]:
    shown = GROUPS if len(section.groups) == 1 else PHOTOS
    return [
        (number, f.action, f.image, f.cosine, f.why)
        for number, group in enumerate(section.groups[:GROUPS], 1)
        for f in group.findings[:shown]
    ]


def _rest(section: Section) -> None:
    """Say what the table leaves out."""
    if not section.rows and (left := section.images() - len(_lines(section))) > 0:
        click.echo(f"… and {left} more photos: --csv, --json and --list have all, --html shows them")
