"""The `nonneg` command: a table of subcommands, loaded when they are used; names of data sets stand for folders."""

import gc
import os
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from nonneg_core.process.start_up import open_missing_streams

# Named data sets stand for folders.

NAMES = ("digits", "cifar10", "cifar100", "stl10", "fashion-mnist")
HOME = "NONNEG_DATA"  # the variable with the folder of named data sets
SOURCES = ("images", "sources")  # arguments that take folders beside other things
ARGUMENTS, OPTIONS = ("data", "photos", "a", "b"), ("calibrate", "evaluate", "photos", "images", "others")  # of paths
_NAMED = re.compile(rf"({'|'.join(NAMES)})(:\w+)?")


class OrNamed(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click alone
    """What a parameter takes, or the name of a data set in its place."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name = inner, inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the folder of the named images, or what the parameter makes of the value itself."""
        if isinstance(value, str) and not os.path.exists(value):  # noqa: PTH110 - a name may be no path at all
            value = _folder(value)
        return self.inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what the parameter completes by itself, and names."""
        named = [CompletionItem(name) for name in NAMES if incomplete and name.startswith(incomplete)]
        completed: list[CompletionItem] = self.inner.shell_complete(ctx, param, incomplete)
        return [*named, *completed]


def accept_names(command: click.Command) -> click.Command:
    """Let every parameter of a command that takes images take names too."""
    for param in command.params:
        argument = isinstance(param, click.Argument)
        of_paths = isinstance(param.type, click.Path) and param.name in (ARGUMENTS if argument else OPTIONS)
        if of_paths or (argument and param.name in SOURCES and not isinstance(param.type, OrNamed)):
            param.type = OrNamed(param.type)
    return command


def _folder(name: str) -> str:
    """Return the folder that a name stands for, or the name."""
    if _NAMED.fullmatch(name):
        return str(_unpacked(name))
    below = Path(os.environ[HOME], name) if os.environ.get(HOME) else None
    return str(below) if below is not None and os.path.isdir(below) else name  # noqa: PTH112 - as above


def _unpacked(name: str) -> Path:
    from nonneg_core.terminal.installing import needing

    with needing(f"the data set {name}", extra="training"):
        from nonneg_training.data.data_set_as_folder import unpacked
    return unpacked(name)


@dataclass(frozen=True)
class Subcommand:
    """Where a subcommand lives, what it says of itself in the list, and the extra that brings what it needs."""

    home: str  # module:attribute
    summary: str
    extra: str | None = None


COMMANDS: dict[str, Subcommand] = {
    "train": Subcommand(
        "nonneg_training.train_command:train", "Train a non-negative encoder on a folder of images.", "training"
    ),
    "export": Subcommand("nonneg_export.commands.export:export", "Turn a checkpoint into a bundle.", "training"),
    "rank": Subcommand("nonneg_export.commands.bundle_from_bundle:rank", "Rank a bundle by your own photos.", "export"),
    "wrap": Subcommand(
        "nonneg_export.commands.wrap:wrap", "Turn any image encoder, a file or a name, into a bundle.", "export"
    ),
    "quantize": Subcommand(
        "nonneg_export.commands.bundle_from_bundle:quantize", "Make a bundle smaller and faster.", "export"
    ),
    "atlas": Subcommand("nonneg_export.commands.atlas:atlas", "Show what each dimension stands for.", "export"),
    "certify": Subcommand(
        "nonneg_export.commands.certify:certify", "Test whether a bundle's dimensions mean something.", "server"
    ),
    "adapt": Subcommand("nonneg_export.commands.adapt:adapt", "Make a better model for your own photos.", "server"),
    "push": Subcommand("nonneg_export.commands.whole_bundles:push", "Share a bundle: a folder or a model hub."),
    "pull": Subcommand("nonneg_export.commands.whole_bundles:pull", "Get a bundle from a folder or a model hub."),
    "info": Subcommand("nonneg_export.commands.whole_bundles:info", "Show what a bundle says about itself."),
    "serve": Subcommand("nonneg_server.startup.serve_command:serve", "Answer POST /embed on a port.", "server"),
    "studio": Subcommand(
        "nonneg_cli.studio:studio", "Look at photos through their dimensions, in a browser.", "server"
    ),
    "embed": Subcommand("nonneg_client.commands.embed:embed", "Embed images into a file of vectors."),
    "shorten": Subcommand("nonneg_client.commands.shorten:shorten", "Shorten the vectors of a file."),
    "index": Subcommand("nonneg_client.commands.index:index", "Make a folder of images searchable."),
    "search": Subcommand("nonneg_client.commands.search:search", "Find images like a photo, or by dimensions."),
    "curate": Subcommand(
        "nonneg_client.commands.curate:curate", "Find duplicates, outliers, clusters, doubtful labels."
    ),
    "diff": Subcommand("nonneg_client.commands.diff:diff", "Say what distinguishes two folders of photos."),
    "evaluate": Subcommand(
        "nonneg_cli.evaluate_or_structure:evaluate", "Measure retrieval by length, or what dimensions are like."
    ),
    "key": Subcommand("nonneg_cli.key:key", "Make an API key for a server.", "server"),
    "compare": Subcommand("nonneg_client.commands.compare:compare", "Compare two lengths or two models, with a test."),
    "cache": Subcommand("nonneg_cli.cache:cache", "Show what earlier runs keep on this disk, or remove it."),
    "doctor": Subcommand("nonneg_cli.doctor:doctor", "Check this installation and say how to mend it."),
}


class Lazy(click.Group):
    """A group that imports a subcommand only when it is run or asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.home.partition(":")
        gc.disable()  # imports leave no garbage, and to look for it takes a tenth of their time
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise missing(cmd_name, error) from None
        finally:
            gc.enable()
        return accept_names(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does, and suggest the nearest for a name that is not one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            guesses = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.6)
            meant = f" Did you mean {guesses[0]}?" if guesses else f" There are {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command '{args[0]}'.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; what it imports only now may be missing as well."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise missing(str(ctx.invoked_subcommand), error) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table: a name must neither load its command nor stumble over a missing extra."""
        names = [CompletionItem(name, help=e.summary) for name, e in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def missing(command: str, error: ModuleNotFoundError) -> Exception:
    """Return what is missing and the command that installs it; the error itself where no extra would help."""
    from nonneg_core.errors import MissingExtra
    from nonneg_core.terminal.installing import extra_hint

    entry = COMMANDS.get(command)
    package = (error.name or "").partition(".")[0]
    if entry is None or entry.extra is None or package.startswith("nonneg_") or package in sys.stdlib_module_names:
        return error
    return MissingExtra(f"nonneg {command} needs {error.name}", fix=extra_hint(entry.extra), value=error.name)


def _show_version(ctx: click.Context, _: click.Parameter, flag: bool) -> None:
    if flag and not ctx.resilient_parsing:
        from nonneg_core.version import __version__

        click.echo(f"nonneg {__version__}")
        ctx.exit()


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show it.")
def nonneg() -> None:
    """Make and serve non-negative, sparse image embeddings that can be shortened.

    \b
      nonneg serve                          serve the default model on 127.0.0.1:8000
      nonneg embed photos/ -o photos.npz    embed a folder through it
      nonneg evaluate photos/ --lengths 2048,512,128
    """


def main() -> None:
    """Run the command `nonneg`."""
    run_command(nonneg, "nonneg")


def run_command(command: click.Command, name: str) -> None:
    """Run a command; an error of ours is one line for people and an exit code for programs."""
    open_missing_streams()
    try:
        accept_names(command)(prog_name=name)
    except Exception as error:
        from nonneg_core.errors import NonnegError

        if not isinstance(error, NonnegError):
            raise
        from nonneg_core.terminal.tables import printable

        click.secho(f"Error: {printable(error.message)}", fg="red", err=True)
        if error.fix:
            click.echo(f"Fix:   {printable(error.fix)}", err=True)
        sys.exit(1)
