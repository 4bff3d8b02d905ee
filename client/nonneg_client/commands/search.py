"""`nonneg search`: photos, words, dimensions, or an expression of them -> the nearest images, with reasons."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import (
    DEFAULT_BUNDLE,
    EmbedderOptions,
    embeds,
    refuse_options,
    served_model,
)
from nonneg_core.terminal.tables import Cell, json_line, printable, table

if TYPE_CHECKING:
    from nonneg_client.commands.queries import SearchOptions
    from nonneg_client.model_of_vectors import Index
    from nonneg_vectors.search.query_and_hits import Hit


def _more(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[int, float]:
    """Read 17 or 17=0.5 as {17: 0.5}."""
    try:
        pairs = [text.partition("=") for text in texts]
        return {int(name): float(weight or 1) for name, _, weight in pairs}
    except ValueError:
        raise click.BadParameter("give a dimension, or a dimension and its weight: 17 or 17=0.5") from None


def _typed(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the conditions as they are typed; of which kind their fields are, only the index knows."""
    from nonneg_core.errors import ConfigInvalid
    from nonneg_vectors.search.attributes import read_conditions

    try:
        read_conditions(texts)
    except ConfigInvalid as error:
        raise click.BadParameter(str(error)) from None
    return texts


@click.command()
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("queries", metavar="[QUERY]...", nargs=-1)
@served_model
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many hits.")
@click.option("--text", "texts", multiple=True, metavar="WORDS", help="Ask by words: a golden retriever; repeatable.")
@click.option("--more", multiple=True, callback=_more, metavar="DIM[=W]", help="More of this dimension; repeatable.")
@click.option("--without", multiple=True, type=int, metavar="DIM", help="None of this dimension; repeatable.")
@click.option(
    "--where",
    multiple=True,
    callback=_typed,
    metavar="COND",
    help="folder=cats,dogs, folder!=cats, price<30; repeatable, all must hold.",
)
@click.option("--exclude-self", is_flag=True, help="Leave a query that is in the index out of its own hits.")
@click.option("--matches-only", is_flag=True, help="End the list where random photos may score as much.")
@click.option("--exact", is_flag=True, help="Compare with every vector, and not with candidates alone.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a contact sheet.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def search(
    index: Path,
    queries: tuple[str, ...],
    model: str | None,
    k: int,
    texts: tuple[str, ...],
    more: dict[int, float],
    without: tuple[int, ...],
    where: tuple[str, ...],
    exclude_self: bool,
    matches_only: bool,
    exact: bool,
    html: Path | None,
    as_json: bool,
    through: EmbedderOptions,
) -> None:
    """Find the images of INDEX that are like QUERY: photos, folders, globs, URLs, or an expression.

    An expression joins photos, "words" and dimensions: + and - with weights, & for both, ! for what must not be there.
    Write it in single quotes, and spaces around its signs. Without QUERY, --more finds the images in which dimensions
    are strongest. A hit's reasons are the dimensions that it shares with the query and their parts of the score. What
    scores no more than random photos may is marked `no` under `match`; --matches-only leaves it out.

    \b
      nonneg search photos.index photo.jpg --html hits.html
      nonneg search photos.index 'photo.jpg + 2*dim:17 - other.jpg'
      nonneg search photos.index --text 'golden retriever' --html hits.html
      nonneg search photos.index '"dog" & photo.jpg !"car"'
      nonneg search photos.index 'photo.jpg & other.jpg !dim:40'
      nonneg search photos.index photo.jpg --where folder=cats,dogs --where 'price<30'
      nonneg search photos.index photo.jpg --where 'day>=2024-05-31' --without 40
      nonneg search photos.index --text lighthouse --matches-only
      nonneg search photos.index queries/ -k 1 --exclude-self --json
      nonneg search photos.index --more 17 --more 3=0.5
    """
    from nonneg_client.commands.queries import SearchOptions, hits_of
    from nonneg_client.model_of_vectors import Index
    from nonneg_vectors.search.attributes import read_conditions

    queries = all_queries(queries, texts, more)
    with Index.open(index) as opened:
        know_model(opened, through.bundle)
        conditions = read_conditions(where, opened.description.fields)
        options = SearchOptions(k, conditions, without, exclude_self, exact, matches_only)
        answers = by_dimensions(opened, more, options) if more else hits_of(opened, queries, options, through, model)
        if not any(answers.values()):
            explain(opened, conditions, matches_only=matches_only)
        root = opened.description.root
    question = f"like {', '.join(queries)}" if queries else f"more of {', '.join(map(str, more))}"
    title = f"{Path(root or index).name}: {question}"
    if html is not None:
        write_html(html, title, answers, root)
    show_all(answers, as_json, title)


def all_queries(queries: tuple[str, ...], texts: tuple[str, ...], more: dict[int, float]) -> tuple[str, ...]:
    """Return what is asked, --text as an expression; raises where options do not go together."""
    from nonneg_vectors.expressions.expression import Words

    queries += tuple(str(Words(text)) for text in texts)
    if bool(queries) == bool(more):
        raise click.UsageError("give QUERY, --text or --more, one of them (copies and look-alikes: nonneg curate)")
    if more:
        reason = "has no meaning beside --more: leave one of them out"
        refuse_options("model", "exact", "exclude_self", reason=reason)
    return queries


def by_dimensions(opened: Index, more: dict[int, float], options: SearchOptions) -> dict[str, list[Hit]]:
    """Return the images in which these dimensions are strongest, as of a query without a name."""
    only = options.matches_only
    return {"": opened.by_dimensions(more, options.k, without=options.without, where=options.where, matches_only=only)}


def know_model(opened: Index, bundle: str | None) -> None:
    """Take names and statistics from --bundle, where one is given and its vectors are those of the index."""
    from nonneg_client.model_of_vectors import names_of, statistics_of

    if bundle is not None and bundle != DEFAULT_BUNDLE:
        fingerprint = opened.description.fingerprint
        opened.names = names_of(fingerprint, bundle)
        opened.know(statistics_of(fingerprint, bundle))


def write_html(html: Path, title: str, answers: dict[str, list[Hit]], root: str) -> None:
    """Write one query's hits as a contact sheet."""
    from nonneg_client.commands.contact_sheets import write_sheet

    if len(answers) > 1:
        raise click.UsageError("--html shows the hits of one query: give one, or take --json")
    ((query, hits),) = answers.items()
    unseen = write_sheet(html, title, hits, query=query or None, root=root)
    if unseen:
        click.echo(f"{html}: {unseen} of {len(hits)} images cannot be read in {root or 'this folder'}", err=True)


def explain(opened: Index, where: dict[str, Any], *, matches_only: bool) -> None:
    """Say why nothing was found. Conditions make it read all payloads, so it is asked only then."""
    from nonneg_vectors.search.attributes import explain_none, holds

    payloads = opened.engine.payloads().values() if where else ()
    if where and not any(holds(payload, where) for payload in payloads):
        click.echo(printable(f"no hit: {explain_none(payloads, where, opened.description.fields)}"), err=True)
    elif matches_only:
        click.echo("no match: every photo scores as random ones may; without --matches-only they are listed", err=True)


def show(hits: list[Hit], as_json: bool, title: str) -> None:
    """Print the hits as a table or as JSON."""
    if as_json:
        click.echo(json_line({"hits": [asdict(hit) for hit in hits]}))
        return
    if not hits:  # why was said
        return
    rows: list[list[Cell]] = [
        [hit.score, hit.id, *match, hit.reasons_text(3)] for hit, match in zip(hits, matches(hits), strict=True)
    ]
    names = ["score", "image", *(["match"] if any(matches(hits)) else []), "because of"]
    click.echo(table(names, rows, title=title if sys.stdout.isatty() else ""))


def matches(hits: list[Hit]) -> list[list[str]]:
    """Return the cells that say which hits are matches; none where all are."""
    if all(hit.match is not False for hit in hits):
        return [[] for _ in hits]
    return [["yes" if hit.match else "no"] for hit in hits]


def show_all(answers: dict[str, list[Hit]], as_json: bool, title: str) -> None:
    """Print the hits of every query; of a single one without its name."""
    for query, hits in answers.items():
        if hits and all(hit.match is False for hit in hits):
            click.echo(f"nothing here matches {query}: each hit scores no more than random photos may", err=True)
    if len(answers) == 1:
        show(next(iter(answers.values())), as_json, title)
        return
    if as_json:
        queries = [{"query": query, "hits": [asdict(hit) for hit in hits]} for query, hits in answers.items()]
        click.echo(json_line({"queries": queries}))
        return
    pairs = [(query, hit) for query, hits in answers.items() for hit in hits]
    marked = matches([hit for _, hit in pairs])
    rows: list[list[Cell]] = [
        [query, hit.score, hit.id, *match] for (query, hit), match in zip(pairs, marked, strict=True)
    ]
    names = ["query", "score", "image", *(["match"] if any(marked) else [])]
    click.echo(table(names, rows, title=title if sys.stdout.isatty() else ""))
