"""Options of `nonneg evaluate` that change nothing for some kinds of data: typed, they are refused."""

from __future__ import annotations

import click

OF_LABELS = ("k", "vectors", "selections", "with_probe", "picture", "kept", "missed")


def refuse_options(*names: str, reason: str) -> None:
    """Raise if one of these options of the running command was typed: it would change nothing."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            (option,) = (p.opts[0] for p in context.command.params if p.name == name)
            raise click.UsageError(f"{option} is {reason}")
