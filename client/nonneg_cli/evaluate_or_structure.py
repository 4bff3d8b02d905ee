"""`nonneg evaluate`: retrieval through a server or a bundle; with --structure, what dimensions are like."""

from typing import Any

import click

from nonneg_client.commands.evaluate import evaluate as retrieval

FLAG = "--structure"


class Either(click.Command):
    """The command of retrieval, and behind one flag the command of structure with its own arguments and help."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if FLAG not in args or (parent is not None and parent.resilient_parsing):
            return super().make_context(info_name, args, parent, **extra)
        rest = [argument for argument in args if argument != FLAG]
        return _structure().make_context(f"{info_name} {FLAG}", rest, parent, **extra)


def _structure() -> click.Command:
    from nonneg_core.terminal.installing import needing

    with needing(f"nonneg evaluate {FLAG}", extra="training"):
        from nonneg_training.measure.structure_command import structure
    return structure


evaluate = Either(
    "evaluate",
    callback=retrieval.callback,
    params=[
        *retrieval.params,
        click.Option(
            [FLAG],
            is_flag=True,
            expose_value=False,
            help="Measure instead what the dimensions are like, of a run, a bundle, an ONNX file or an array; "
            "`nonneg evaluate --structure --help`.",
        ),
    ],
    help=retrieval.help,
)
