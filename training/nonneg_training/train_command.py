"""nonneg train: the command line of training."""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.process.long_runs import Interrupted
from nonneg_training.setup.plugins import plugin_option
from nonneg_training.setup.run_settings import RunSettings, read_settings

RECIPES = sorted(path.stem for path in (Path(__file__).parent / "recipes").glob("*.toml"))
_FLAGS = {  # the flags that stand for one setting each
    "method": "method",
    "data": "data.source",
    "root": "data.root",
    "backbone": "model.backbone",
    "preprocessor": "onnx.preprocessor",
    "dimensions": "model.dimensions",
    "activation": "model.activation",
    "size": "views.size",
    "temperature": "loss.temperature",
    "optimiser": "optimiser.name",
    "lr": "optimiser.lr",
    "epochs": "loop.epochs",
    "steps": "loop.steps",
    "batch": "loop.batch",
    "seed": "seed",
}


@click.command()
@click.option("--out", "-o", type=click.Path(path_type=Path), required=True, help="Folder of the run.")
@click.option(
    "--config", "-c", help=f"TOML file with the settings, or a recipe: {', '.join(RECIPES)}; flags come on top."
)
@click.option("--method", help="cl, ncl, spectral-cl, spectral-ncl, ce, nce, two-tower or head.")
@click.option("--data", help="digits, cifar10, ...; a folder with a folder of images a class; a CSV; tar shards.")
@click.option("--root", type=click.Path(), help="Where a named data set lies.")
@click.option(
    "--backbone",
    help="tiny-cnn, slim-resnet, resnet18/34/50, vit-s-16, mobilenet-v3-small/large, "
    "efficientnet-lite0/1/2, timm:NAME, or for a head an ONNX image encoder or a bundle's folder.",
)
@click.option("--preprocessor", type=click.Path(), help="The ONNX encoder's preprocessor_config.json.")
@click.option("--dimensions", type=int, help="D, the width of the embedding; 0: the features themselves.")
@click.option("--activation", help="relu, rep_relu, sigmoid, softplus or exp.")
@click.option("--size", type=int, help="Side of the pixels the encoder sees.")
@click.option("--temperature", type=float)
@click.option("--optimiser", help="sgd, lars or adamw.")
@click.option("--lr", type=float, help="Peak learning rate.")
@click.option("--epochs", type=int, help="Times through the images.")
@click.option("--steps", type=int, help="Steps, in place of epochs.")
@click.option("--batch", type=int, help="Images a step.")
@click.option("--seed", type=int, help="The same seed gives the same weights.")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting: --set views.blur=0.")
@click.option(
    "--from",
    "checkpoint",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take over an encoder of solo-learn's layout (backbone.*, projector.*) as a run; nothing is trained.",
)
@plugin_option
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in --out.")
def train(
    out: Path, config: str | None, others: tuple[str, ...], checkpoint: Path | None, resume: bool, **flags: Any
) -> None:
    """Train a non-negative encoder and leave its checkpoint in a folder.

    \b
      nonneg train --data digits --epochs 5 --out runs/digits
      nonneg train --data photos/ --backbone slim-resnet --out runs/photos
      nonneg train --plugin mine.py --backbone my-net --data photos/ --out runs/mine
      nonneg train --config head --data photos/ --out runs/head
      nonneg train --method head --backbone clip.onnx --data photos/ --out runs/clip
      nonneg train --from ncl.ckpt --data cifar10 --out runs/theirs
      nonneg export runs/photos --calibrate photos/ --out photos.bundle

    Interrupted by Ctrl-C or SIGTERM, it keeps the steps that are done, and the same command goes on.
    """
    from nonneg_training.loop import training_run

    if flags["epochs"] is not None and flags["steps"]:
        raise ConfigInvalid("--epochs and --steps both say how long", fix="give one of them", field="steps")
    changes = {_FLAGS[name]: value for name, value in flags.items() if value is not None}
    changes |= dict(_assignment(text) for text in others)
    if resume and (config or changes):
        raise ConfigInvalid("--resume goes on with the run's own settings", fix="leave the other options out")
    if checkpoint is not None:
        from nonneg_training.loop.foreign_checkpoint import adopt

        encoder = adopt(checkpoint, recipe_settings(config, changes), out)
        click.echo(f"{out}: the encoder of {checkpoint}, {encoder.dimensions} dimensions, {encoder.activation}")
        return
    try:
        outcome = training_run.resume(out) if resume else training_run.train(recipe_settings(config, changes), out)
    except Interrupted as interrupted:
        click.echo(f"{interrupted}: {_kept(out)}", err=True)
        raise SystemExit(interrupted.exit_code) from None
    for name, why in outcome.broken.items():
        click.echo(f"skipped {name}: {why}", err=True)
    if not outcome.taken:
        click.echo(f"{out}: all {outcome.steps} steps had been done")
    if outcome.reading is None:  # another rank's
        return
    quality = outcome.reading
    click.echo(f"{out}: {outcome.steps} steps, loss {outcome.loss:.4f}, {quality}")


def _kept(out: Path) -> str:
    """Say what an interrupted run leaves, and how it goes on."""
    from nonneg_training.loop.training_checkpoint import CHECKPOINT_FILE

    return f"{out} is kept; the same command goes on" if (out / CHECKPOINT_FILE).exists() else "no step was done yet"


def recipe_settings(config: str | None, changes: dict[str, Any]) -> RunSettings:
    """Return the recipe's settings with the flags on top.

    A method given by a flag brings its own activation where the recipe's belongs to another kind of method; an ONNX
    encoder brings its weights and its size.
    """
    from nonneg_training.loop.settings_checks import allowed
    from nonneg_training.onnx_backbone import encoder_file, is_onnx_file

    if is_onnx_file(encoder_file(changes.get("model.backbone", ""))):
        changes = {"model.pretrained": None, "views.size": None, **changes}
    settings = read_settings(_recipe(config), changes)
    named = settings.model.activation
    if "method" in changes and "model.activation" not in changes and named not in (None, *allowed(settings.method)):
        return settings.model_copy(update={"model": settings.model.model_copy(update={"activation": None})})
    return settings


def _recipe(name: str | None) -> Path | None:
    """Return a file, or the recipe of that name that comes with nonneg."""
    if name is None or Path(name).is_file():
        return None if name is None else Path(name)
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise ConfigInvalid(
            f"{name} is not a file and not a recipe", fix=f"{guess}The recipes are {', '.join(RECIPES)}", value=name
        )
    return Path(__file__).parent / "recipes" / f"{name}.toml"


def _assignment(text: str) -> tuple[str, Any]:
    """Read name=value, the value as TOML, or as a word if it is none."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigInvalid(f"--set {text}: no '='", fix="write --set name=value", field="--set", value=text)
    try:
        return name, tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        return name, value
