from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from loopback_bucket import loopback_bucket

from nonneg_core.errors import BundleInvalid, ConfigInvalid, ConnectionFailed, DigestMismatch, NotFound, StorageFailed
from nonneg_core.terminal.installing import extra_hint
from nonneg_export.commands.whole_bundles import pull, push
from nonneg_export.share.bundle_sharing import pull as pull_from
from nonneg_export.share.model_card import card
from nonneg_runtime.bundle.bundle_folder import DEFAULT, open_bundle

NONNEG = str(Path(sys.executable).with_name("nonneg"))


def test_a_pushed_bundle_is_pulled_back_the_same(tmp_path: Path) -> None:
    source = Path(shutil.copytree(DEFAULT, tmp_path / "source"))
    (source / "notes.txt").write_text("mine")
    for command, arguments in ((push, [source, tmp_path / "shared"]), (pull, [tmp_path / "shared", tmp_path / "back"])):
        result = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
        assert result.exit_code == 0
        assert open_bundle().manifest.fingerprint in result.output
    assert open_bundle(tmp_path / "back").manifest == open_bundle().manifest
    shipped = [path.name for path in DEFAULT.iterdir()]
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == sorted([*shipped, "README.md"])


def test_a_bundle_comes_from_an_object_store_once_and_only_with_the_digest_that_was_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    expected = open_bundle().manifest
    files = {f"/models/photo/{path.name}": path.read_bytes() for path in DEFAULT.iterdir()}
    with loopback_bucket({**files, "/models/photo/notes.txt": b"mine"}, monkeypatch) as bucket:
        with pytest.raises(DigestMismatch, match="not 0000"):
            pull_from("s3://models/photo", tmp_path / "out", digest="0000")
        assert not (tmp_path / "out").exists()
        assert pull_from("s3://models/photo", tmp_path / "out", digest=expected.digest).manifest == expected
        assert not (tmp_path / "out" / "notes.txt").exists()
        bucket.refusal = (403, "AccessDenied")
        pull_from("s3://models/photo", tmp_path / "out", digest=expected.digest)  # nothing is asked
        with (tmp_path / "out" / "encoder.onnx").open("ab") as file:
            file.write(b"x")
        with pytest.raises(ConnectionFailed, match="s3://models/photo cannot be read"):
            pull_from("s3://models/photo", tmp_path / "out", digest=expected.digest, replace=True)
        bucket.refusal = (404, "NoSuchBucket")
        with pytest.raises(NotFound, match="holds no bundle"):
            pull_from("s3://models/photo", tmp_path / "other")


def test_the_card_says_what_it_is_where_it_comes_from_and_how_good_it_is() -> None:
    text = card(open_bundle().manifest)
    assert text.startswith('---\nlicense: "apache-2.0"\nlibrary_name: "nonneg"\n')
    for said in ("ML Illustrated", "| own order (nested) | 2048 |", open_bundle().manifest.fingerprint, "Caltech-101"):
        assert said in text


def test_a_licence_the_hub_does_not_know_is_other() -> None:
    manifest = open_bundle().manifest
    mine = manifest.provenance.model_copy(update={"weights_license": "My own: terms\n---\nevil: true"})
    front = card(manifest.model_copy(update={"provenance": mine})).split("---")[1]
    assert 'license: "other"' in front
    assert "evil" not in front


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="exists"):
        pull_from(str(DEFAULT), tmp_path)


def test_a_damaged_bundle_is_not_pulled(tmp_path: Path) -> None:
    source = Path(shutil.copytree(DEFAULT, tmp_path / "source"))
    with (source / "encoder.onnx").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DigestMismatch):
        pull_from(str(source), tmp_path / "out")
    with pytest.raises(BundleInvalid):
        pull_from(str(tmp_path / "nowhere"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["hf:", "hf:model", "hf:a/b/c", "hf:/b"])
def test_an_address_that_names_no_repository_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="names no repository"):
        pull_from(name, tmp_path / "out")


@pytest.mark.parametrize(
    "arguments", [["pull", "hf:unknown/nothing", "out"], ["push", str(DEFAULT), "hf:unknown/nothing"]]
)
def test_a_hub_that_cannot_be_reached_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    nowhere = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub"), "HF_TOKEN": "hf_x"}
    done = subprocess.run(
        [NONNEG, *arguments], cwd=tmp_path, env=nowhere, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "Error: hf:unknown/nothing cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_the_hubs_library_the_pip_command_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['huggingface_hub'] = None; sys.argv = ['nonneg', 'pull', 'hf:a/b', 'out']; "
        "from nonneg_cli.table import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert extra_hint("hub") in done.stderr
