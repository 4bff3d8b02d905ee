"""`nonneg search`: a photo, or dimensions -> the nearest images of an index, with reasons."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.connection import embeds, served_model

if TYPE_CHECKING:
    from nonneg_client.commands.connection import Through
    from nonneg_client.search.index import Hit, Index


def _more(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[int, float]:
    """17 or 17=0.5 -> {17: 0.5}."""
    try:
        pairs = [text.partition("=") for text in texts]
        return {int(name): float(weight or 1) for name, _, weight in pairs}
    except ValueError:
        raise click.BadParameter("give a dimension, or a dimension and its weight: 17 or 17=0.5") from None


def _where(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """folder=cats, folder=cats,dogs, year>=2001 -> conditions."""
    found: dict[str, Any] = {}
    for text in texts:
        sign = next((s for s in (">=", "<=", ">", "<", "=") if s in text), None)
        if sign is None:
            raise click.BadParameter(f"{text!r} is not like folder=cats or bytes>=1000")
        name, _, value = text.partition(sign)
        if sign == "=":
            found[name] = [_value(v) for v in value.split(",")] if "," in value else _value(value)
        else:
            bound = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}[sign]
            found[name] = {**(found.get(name) or {}), bound: _value(value)}
    return found


def _value(text: str) -> str | int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@click.command()
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("query", required=False)
@served_model
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many hits.")
@click.option("--more", multiple=True, callback=_more, metavar="DIM[=W]", help="More of this dimension; repeatable.")
@click.option("--without", multiple=True, type=int, metavar="DIM", help="None of this dimension; repeatable.")
@click.option("--where", multiple=True, callback=_where, metavar="COND", help="folder=cats, bytes>=1000; repeatable.")
@click.option("--cut", type=click.IntRange(min=1), metavar="N", help="Ask with the N largest entries, rank exactly.")
@click.option(
    "--duplicates", type=click.FloatRange(0, 1, min_open=True), metavar="COSINE", help="List near-duplicates."
)
@click.option("--html", type=click.Path(path_type=Path), help="Write a contact sheet.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def search(
    index: Path,
    query: str | None,
    model: str | None,
    k: int,
    more: dict[int, float],
    without: tuple[int, ...],
    where: dict[str, Any],
    cut: int | None,
    duplicates: float | None,
    html: Path | None,
    as_json: bool,
    through: Through,
) -> None:
    """Find the images of INDEX that are like QUERY, a photo or a URL.

    Without QUERY, --more finds the images in which dimensions are strongest, and --duplicates those that are nearly
    the same. A hit's reasons are the dimensions that it shares with the query and their parts of the score.

    \b
      nonneg search photos.index photo.jpg --html hits.html
      nonneg search photos.index photo.jpg --where folder=cats --without 40
      nonneg search photos.index --more 17 --more 3=0.5
      nonneg search photos.index --duplicates 0.95
    """
    from nonneg_client.search.index import Index

    if sum([query is not None, bool(more), duplicates is not None]) != 1:
        raise click.UsageError("give one of QUERY, --more and --duplicates")
    check_together("duplicates" if duplicates is not None else "more" if more else "query")
    with Index.open(index) as opened:
        if duplicates is not None:
            show_duplicates(opened, duplicates, as_json)
            return
        if query is None:
            hits = opened.by_dimensions(more, k, without=without, where=where)
        else:
            hits = by_image(opened, query, model, k, where, without, cut, through)
        if where and not hits:
            check_fields(opened, where)
        title = f"{index}: like {query}" if query else f"{index}: more of {', '.join(map(str, more))}"
    if html is not None:
        from nonneg_client.search.sheet import write_sheet

        write_sheet(html, title, hits, query=query)
    show(hits, as_json, title)


NEEDLESS = {"duplicates": ("k", "model", "where", "without", "cut", "html"), "more": ("model", "cut"), "query": ()}


def check_together(what: str) -> None:
    """Raise if an option was given that says nothing about what is asked: none is ignored."""
    context = click.get_current_context()
    for name in NEEDLESS[what]:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            flag = "-k" if name == "k" else f"--{name}"
            raise click.UsageError(f"{flag} has no meaning beside --{what}: leave one of them out")


def by_image(
    opened: Index,
    query: str,
    model: str | None,
    k: int,
    where: dict[str, Any],
    without: tuple[int, ...],
    cut: int | None,
    through: Through,
) -> list[Hit]:
    """Embed the photo and look for it at the index's length."""
    from nonneg_client.sources.images import items
    from nonneg_core.errors import DataInvalid

    if len(list(islice(items(query), 2))) > 1:
        raise DataInvalid(f"{query} stands for several images, a search takes one", fix="give one of them")
    with through.opened() as client:
        vector = client.embed(query, model=model)
    if vector.fingerprint == opened.description.fingerprint:  # else it is refused as another model's
        vector = vector.shorten(opened.description.dimensions)
    return opened.search(vector, k, where=where, without=without, cut=cut)


def check_fields(opened: Index, where: dict[str, Any]) -> None:
    """Raise if a condition is on a field that no image has; all payloads are read, so only when nothing was found."""
    from nonneg_core.errors import ConfigInvalid

    known = sorted({name for payload in opened.engine.payloads().values() for name in payload})
    for name in where:
        if known and re.split(r"[.\[]", name)[0] not in ("id", *known):  # a.b and a[].b are inside of a
            raise ConfigInvalid(
                f"no image of the index has a field {name}", fix=f"ask for {', '.join(known)}", field=name
            )


def show(hits: list[Hit], as_json: bool, title: str) -> None:
    """The hits as a table or as JSON."""
    if as_json:
        click.echo(json.dumps({"hits": [asdict(hit) for hit in hits]}, ensure_ascii=False))
        return
    from nonneg_core.tables import table

    rows = [(hit.score, hit.id, ", ".join(f"{d}: {part:.3f}" for d, part in hit.reasons[:3])) for hit in hits]
    click.echo(table(["score", "image", "because of dimensions"], rows, title=title if sys.stdout.isatty() else ""))


def show_duplicates(opened: Index, threshold: float, as_json: bool) -> None:
    """Groups of near-duplicates, one line each."""
    from nonneg_client.search.duplicates import groups, pairs

    found = groups(pairs(opened, threshold))
    if as_json:
        click.echo(json.dumps({"threshold": threshold, "groups": found}, ensure_ascii=False))
        return
    for group in found:
        click.echo("\t".join(group))
