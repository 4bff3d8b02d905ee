"""The options of every subcommand that embeds: which server, or which bundle in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.settings import API_KEY, DEFAULT_URL, URL

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder

Command = Callable[..., Any]

DEFAULT_BUNDLE = "default"  # the first of the models that come with the package
SHIPPED_BUNDLES = (DEFAULT_BUNDLE, "photo", "photo-fast")


@dataclass(frozen=True)
class EmbedderOptions:
    """What images are embedded through."""

    url: str
    api_key: str | None = None
    timeout: float = 60.0
    bundle: str | None = None

    def opened(self, **tuning: int) -> Embedder:
        """Return the bundle in this process if one is named, else a client of the server."""
        from nonneg_client.client import Client
        from nonneg_client.embedder import local

        if self.bundle is not None:
            return local(None if self.bundle == DEFAULT_BUNDLE else self.bundle)
        return Client(self.url, api_key=self.api_key, timeout=self.timeout, **tuning)


served_model = click.option("--model", help="A served model's name; without it, the server's default.")


def embeds(command: Command) -> Command:
    """Add --url, --api-key, --timeout and --bundle; the command gets what they say as `through`."""

    @wraps(command)
    def wrapped(*args: Any, url: str, api_key: str | None, timeout: float, bundle: str | None, **rest: Any) -> Any:
        return command(*args, through=EmbedderOptions(url, api_key, timeout, bundle), **rest)

    for option in (
        click.option(
            "--bundle",
            metavar="FOLDER",
            help="Embed in this process with this bundle, without a server; `photo` and `photo-fast` come along.",
        ),
        click.option("--timeout", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds."),
        click.option("--api-key", envvar=API_KEY, show_envvar=True, help="Key, if the server wants one."),
        click.option(
            "--url", envvar=URL, show_envvar=True, default=DEFAULT_URL, show_default=True, help="Server's address."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
