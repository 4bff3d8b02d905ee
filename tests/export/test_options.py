"""What is understood from the options that the commands share."""

from pathlib import Path

import pytest

from nonneg_export.commands.options import about


@pytest.mark.parametrize(
    ("out", "given", "name"),
    [
        ("digits.bundle", None, "digits"),
        ("models/digits", None, "digits"),
        ("my photos.bundle", None, "my-photos"),
        ("v1.2", None, "v1.2"),
        (".bundle", None, "model"),
        ("digits.bundle", "digits.bundle", "digits.bundle"),
    ],
)
def test_a_model_is_named_after_its_folder_unless_it_is_given_a_name(out: str, given: str | None, name: str) -> None:
    said = {"out": Path(out), "name": given, "model_version": "1", "license": "", "data_license": ""}
    assert about(said).name == name
