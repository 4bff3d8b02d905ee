"""`nonneg key`: make an API key, and the line by which a server knows it."""

import secrets

import click

from nonneg_server.http.keys import MARK, METRICS, digest_of

PREFIX = "nn_"


@click.command()
@click.argument("name", default="client")
@click.option("--metrics", is_flag=True, help="It opens GET /metrics and nothing else: for Prometheus.")
def key(name: str, metrics: bool) -> None:
    """Make an API key, and the line by which a server knows it (nonneg serve --api-key-file)."""
    made = PREFIX + secrets.token_urlsafe(32)
    click.echo(f"{name} {MARK}{digest_of(made).hex()}{f' {METRICS}' if metrics else ''}")
    click.secho(f"the key itself, shown only now: {made}", err=True)
