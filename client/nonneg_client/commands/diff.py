"""`nonneg diff`: two collections of photos -> the dimensions that distinguish them, with what is sure about each."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.embedder_options import DEFAULT_BUNDLE, EmbedderOptions, embeds
from nonneg_core.terminal.tables import json_line, printable

if TYPE_CHECKING:
    from nonneg_vectors.curation.collection import Collection, Section

SHOWN = 30  # dimensions in the table


@click.command()
@click.argument("a", type=click.Path(exists=True, path_type=Path))
@click.argument("b", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--where-a", multiple=True, metavar="COND", help="Only photos of A with folder=cats, day<2024-05-31; repeatable."
)
@click.option("--where-b", multiple=True, metavar="COND", help="Only such photos of B.")
@click.option(
    "--discoveries", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
    help="Expected share of named dimensions that differ by chance alone.",
)  # fmt: skip
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write a sheet with the photos that show each difference."
)
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write every dimension that differs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def diff(
    a: Path,
    b: Path,
    where_a: tuple[str, ...],
    where_b: tuple[str, ...],
    discoveries: float,
    html: Path | None,
    csv_file: Path | None,
    as_json: bool,
    through: EmbedderOptions,
) -> None:
    """Say what distinguishes the photos of B from those of A.

    A and B are indexes, files that `nonneg embed` wrote, or folders of photos, which are embedded now.

    \b
      nonneg diff train.index production.index --html shift.html
      nonneg diff may/ june/ --bundle default
      nonneg diff photos.index photos.index --where-a 'day<2024-06-01' --where-b 'day>=2024-06-01'
    """
    from nonneg_client.model_of_vectors import names_of
    from nonneg_core.files.csv_table import write_table
    from nonneg_vectors.curation.collection import as_json as for_programs
    from nonneg_vectors.curation.distinguish import distinguish

    one, other = collection_of(a, through).where(where_a), collection_of(b, through).where(where_b)
    bundle = None if through.bundle == DEFAULT_BUNDLE else through.bundle
    section = distinguish(one, other, names_of(one.vectors.fingerprint, bundle), discoveries)
    if csv_file is not None:
        write_table(csv_file, section.columns, section.rows)
    if html is not None:
        from nonneg_client.commands.contact_sheets import write_page

        write_page(html, section.title, [section], other, one)
    if as_json:
        click.echo(json_line({"a": str(a), "b": str(b), **for_programs([section])[0]}))
    else:
        show(section)


def collection_of(path: Path, through: EmbedderOptions) -> "Collection":
    """Return an index or a file of vectors as it is; the photos of another folder are embedded."""
    from nonneg_client.sources.rooted_images import rooted
    from nonneg_vectors.curation.collection import Collection, read_collection

    if path.is_file() or (path / "index.json").exists():
        return read_collection(path)
    root = path.resolve()
    with through.opened() as embedder:
        vectors = embedder.embed((item.path for item in rooted([str(path)], root) if item.path), on_error="return")
    for failure in vectors.failures:
        click.echo(printable(f"skipped {failure.id}: {failure.error}"), err=True)
    return Collection(str(path), vectors, [{}] * len(vectors))


def show(section: "Section") -> None:
    """Print the differences in words, a line each."""
    click.echo(f"{printable(section.title)}: {len(section.rows)} dimensions")
    click.echo(section.how)
    for note in section.notes:
        click.echo(printable(note))
    for side, head in (("B", "more in B"), ("A", "less in B")):
        pairs = [(row, group) for row, group in zip(section.rows, section.groups, strict=True) if row[2] == side]
        if pairs:
            click.echo(f"\n{head}:")
        for row, group in pairs[:SHOWN]:
            effect, low, high, q = row[-4:]
            first = group.findings[0].image if group.findings else "-"
            click.echo(printable(f"  {group.title}; effect {effect:+.2f} [{low:+.2f} {high:+.2f}], q {q:.1g}; {first}"))
        if len(pairs) > SHOWN:
            click.echo(f"  … and {len(pairs) - SHOWN} more: --csv, --json and --html have all")
