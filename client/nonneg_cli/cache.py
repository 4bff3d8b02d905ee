"""`nonneg cache`: what earlier runs keep on this disk, and how to remove it."""

import click


@click.command()
@click.option("--clear", is_flag=True, help="Remove every entry that no process works on.")
def cache(*, clear: bool) -> None:
    """Show what nonneg keeps in the user's cache: every folder, its entries and its size.

    All of it is work that can be done again: features, comparisons, interrupted exports, indexes of the studio.

    \b
      nonneg cache
      nonneg cache --clear
    """
    from nonneg_core.files.user_cache import bytes_below, cache_kinds, cache_root, evict
    from nonneg_core.terminal.tables import table

    kinds = cache_kinds()
    if clear:
        for kind in kinds:
            evict(kind, newest=0)
    lines = [(str(kind), len(list(kind.iterdir())), f"{bytes_below(kind) / 2**20:.1f}") for kind in kinds]
    click.echo(table(["folder", "entries", "MiB"], lines) if lines else f"{cache_root()} holds nothing")
