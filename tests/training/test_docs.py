"""docs/training.md names every setting with its default, and every recipe."""

from __future__ import annotations

from pathlib import Path

import nonneg_training
from nonneg_training.setup.run_settings import RunSettings, SettingsSection

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_every_setting_is_documented() -> None:
    for name, field in RunSettings.model_fields.items():
        kind = field.annotation
        inner = kind.model_fields if isinstance(kind, type) and issubclass(kind, SettingsSection) else {}
        for setting in [f"{name}.{key}" for key in inner] or [name]:
            assert f"| `{setting}` |" in PAGE, setting


def test_every_recipe_is_named() -> None:
    for recipe in (Path(nonneg_training.__file__).parent / "recipes").glob("*.toml"):
        assert f"`{recipe.stem}`" in PAGE
