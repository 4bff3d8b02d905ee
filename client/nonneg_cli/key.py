"""`nonneg key`: make an API key, and the line by which a server knows it."""

import secrets

import click

from nonneg_server.http.keys import MARK, digest_of

PREFIX = "nn_"


@click.command()
@click.argument("name", default="client")
def key(name: str) -> None:
    """Make an API key, and the line by which a server knows it (nonneg serve --api-key-file)."""
    made = PREFIX + secrets.token_urlsafe(32)
    click.echo(f"{name} {MARK}{digest_of(made).hex()}")
    click.secho(f"the key itself, shown only now: {made}", err=True)
