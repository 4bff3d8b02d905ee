"""The options of every subcommand that asks a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nonneg_client.settings import API_KEY, DEFAULT_URL, URL

Command = Callable[..., Any]


def asks_server(command: Command) -> Command:
    """Add --url, --api-key and --timeout."""
    for option in (
        click.option("--timeout", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds."),
        click.option("--api-key", envvar=API_KEY, show_envvar=True, help="Key, if the server wants one."),
        click.option(
            "--url", envvar=URL, show_envvar=True, default=DEFAULT_URL, show_default=True, help="Server's address."
        ),
    ):
        command = option(command)
    return command
