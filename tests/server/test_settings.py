from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic.fields import FieldInfo

from nonneg_core.errors import ConfigInvalid
from nonneg_server.startup import serve_command as command
from nonneg_server.startup.documents import settings_page
from nonneg_server.startup.serve_command import serve
from nonneg_server.startup.server_settings import Settings, flag, variable
from nonneg_server.startup.setting_sources import misspelt, read_settings


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_PORT", "9001")
    monkeypatch.setenv("NONNEG_MAX_IMAGES", "7")
    settings = read_settings(port=9002)
    assert (settings.port, settings.max_images, settings.host) == (9002, 7, "127.0.0.1")


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_PORT", "many")
    with pytest.raises(ConfigInvalid, match="--port"):
        read_settings()


def test_a_variable_that_is_nearly_a_setting_is_told() -> None:
    given = ["NONNEG_PROT", "NONNEG_PORT", "NONNEG_URL", "NONNEG_SERVICE_HOST", "NONNEG_PORT_80_TCP_ADDR", "PATH"]
    assert misspelt(["NONNEG_DATA", "NONNEG_ENGINE_KEY", "NONNEG_URL"]) == []  # of commands beside the server
    assert misspelt(given) == ["NONNEG_PROT is not a setting and changes nothing: did you mean NONNEG_PORT?"]


def test_every_setting_is_a_flag_a_variable_and_a_line_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Settings] = []
    monkeypatch.setattr(command, "run", lambda settings, **_: read.append(settings))
    file = tmp_path / "nonneg.toml"
    for name, field in Settings.model_fields.items():
        if name in ("config", "index"):  # a file and a folder that must be there
            continue
        given = another(field)
        listed = list(given) if isinstance(given, tuple) else [given]
        text = [str(one).lower() if isinstance(one, bool) else str(one) for one in listed]
        flags = [word for one in text for word in (flag(name), one)]
        if isinstance(given, bool):
            flags = [flag(name) if given else f"--no-{flag(name)[2:]}"]
        assert CliRunner().invoke(serve, flags).exit_code == 0, name
        with monkeypatch.context() as patch:
            patch.setenv(variable(name), ",".join(text))
            assert CliRunner().invoke(serve, []).exit_code == 0, name
        file.write_text(f"{name} = {json.dumps(listed if isinstance(given, tuple) else given)}\n")
        assert CliRunner().invoke(serve, ["--config", str(file)]).exit_code == 0, name
        found = [getattr(settings, name) for settings in read]
        assert found == [Path(given) if isinstance(found[0], Path) else given] * 3, name
        read.clear()


def another(field: FieldInfo) -> object:
    """A valid value that is not the default."""
    kind, default = str(field.annotation), field.default
    if "Literal" in kind:
        return next(name for name in reversed(re.findall(r"'(\w+)'", kind)) if name != default)
    if isinstance(default, bool):
        return not default
    if "X-Forwarded-For" in str(field.description):
        return ("10.0.0.0/8", "2001:db8::7")
    if "tuple" in kind:
        return ("a=/x", "b")
    if "Path" in kind or kind == "<class 'str'>":
        return "/some/where"
    return default - 1 if default and default > 1 else 0.5 if "float" in kind else 7


def test_help_shows_every_setting_with_its_variable() -> None:
    shown = CliRunner().invoke(serve, ["--help"]).output
    for name in Settings.model_fields:
        assert flag(name) in shown
        assert variable(name) in shown


def test_a_file_comes_after_flags_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "nonneg.toml"
    file.write_text('port = 9001\nmax_images = 3\nhost = "::1"\nmodel = ["a=/x"]\n')
    monkeypatch.setenv("NONNEG_MAX_IMAGES", "7")
    settings = read_settings(config=file, port=9002)
    assert (settings.port, settings.max_images, settings.host, settings.model) == (9002, 7, "::1", ("a=/x",))
    monkeypatch.setenv("NONNEG_CONFIG", str(file))
    assert read_settings().port == 9001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "did you mean port"),
        ("port = 70000", "port in .*70000"),
        ("port", "not TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "nonneg.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigInvalid) as refused:
        read_settings(config=file)
    assert re.search(message, str(refused.value))


def test_the_reference_is_what_the_settings_and_metrics_say() -> None:
    written = (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8")
    assert written == settings_page(), "run: python -m nonneg_server.startup.documents > docs/settings.md"
