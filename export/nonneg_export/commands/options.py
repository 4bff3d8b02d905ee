"""Options that several commands share, and what they mean."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from nonneg_export.calibrate.column_ranking import RULES
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.share.model_card import NOT_STATED, About, name_after

PATH = click.Path(path_type=Path)
FEW = 100  # calibration images below which a ranking is hardly better than chance
Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator for many, in the order that the help shows."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


calibration_options = together(
    click.option(
        "--calibrate",
        "--images",
        "calibrate",
        type=PATH,
        required=True,
        help="Folder of photos to measure the dimensions on.",
    ),
    click.option("--limit", type=click.IntRange(1), help="Use at most so many of them, spread evenly over all."),
    click.option("--data", default="", help="What the photos are, for the manifest; by default the folder's name."),
    click.option("--work", type=PATH, help="Where to keep what is measured, to resume; by default the user's cache."),
)
_triton = click.option("--triton", type=PATH, help="Write a Triton model repository of the model to this folder, too.")
replace_option = click.option("--replace", is_flag=True, help="Replace what is at --out.")
output_options = together(
    _triton, click.option("--out", "-o", type=PATH, required=True, help="The bundle to write."), replace_option
)
variant_options = together(
    _triton,
    click.option(
        "--out",
        "-o",
        type=PATH,
        help="The bundle to write; by default where `nonneg serve --precision` finds it: beside BUNDLE, or for the "
        "default model in the user's data folder.",
    ),
    replace_option,
)
ranking_options = together(
    click.option("--dimensions", type=int, help="Keep only the best so many."),
    click.option(
        "--rank-by",
        type=click.Choice(RULES),
        help="What is best; by default nested for a run with nested lengths, else expected-activation.",
    ),
)
evaluation_options = together(
    click.option("--evaluate", type=PATH, help="Folder of labelled photos (class/image) to report quality on."),
    click.option(
        "--evaluation-data", default="", help="What they are, for the manifest; by default the folder's name."
    ),
)
captions_option = click.option(
    "--captions", type=PATH, help="CSV of image,caption to report on how often a text tower's texts and images meet."
)
name_option = click.option("--name", help="The model's name; by default the folder's, but for .bundle.")
about_options = together(
    name_option,
    click.option("--model-version", default="1", show_default=True, help="The model's version."),
    click.option("--license", default=NOT_STATED, help="Licence of the weights, for the manifest."),
    click.option("--data-license", default=NOT_STATED, help="Licence of the training data, for the manifest."),
)


def calibration(flags: dict[str, Any], *, quiet: bool = False) -> Photos:
    """Return the photos to calibrate on; a warning with their number when they are few."""
    photos = find_photos(flags["calibrate"]).every(flags["limit"])
    if len(photos) < FEW and not quiet:
        warn(f"{len(photos)} calibration images are few: give at least {FEW}, better 1,000")
    return photos


def about(flags: dict[str, Any]) -> About:
    """Return what the user says about the model."""
    return About(named(flags), flags["model_version"], flags["license"], flags["data_license"])


def named(flags: dict[str, Any]) -> str:
    """Return what the model is called."""
    return flags["name"] or name_after(flags["out"])


def tell_broken(broken: Sequence[tuple[Path, str]], most: int = 5) -> None:
    """Name the images that were left out because they cannot be read."""
    for path, reason in broken[:most]:
        warn(f"left out {path}: {reason}")
    if len(broken) > most:
        warn(f"left out {len(broken) - most} more broken images")


def warn(text: str) -> None:
    """Print a line on stderr."""
    click.secho(f"Warning: {text}", fg="yellow", err=True)
