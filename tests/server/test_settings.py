from __future__ import annotations

import pytest
from click.testing import CliRunner

from nonneg_client.errors import ConfigInvalid
from nonneg_server.command import serve
from nonneg_server.settings import Settings, flag, read_settings, variable


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_PORT", "9001")
    monkeypatch.setenv("NONNEG_MAX_IMAGES", "7")
    settings = read_settings(port=9002)
    assert (settings.port, settings.max_images, settings.host) == (9002, 7, "127.0.0.1")


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_PORT", "many")
    with pytest.raises(ConfigInvalid, match="--port"):
        read_settings()


def test_help_shows_every_setting_with_its_variable() -> None:
    shown = CliRunner().invoke(serve, ["--help"]).output
    for name in Settings.model_fields:
        assert flag(name) in shown
        assert variable(name) in shown
