"""An error names the fix that helps where it is read: on the command line, beside two models, behind a certificate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from nonneg_cli.table import nonneg
from nonneg_client import Client, Index
from nonneg_core.errors import (
    BundleInvalid,
    ConnectionFailed,
    FingerprintMismatch,
    MediaUnsupported,
    ParameterInvalid,
    Unauthorized,
)
from nonneg_vectors import Embeddings

StartServer = Callable[..., str]


def error_of(*command: object) -> BaseException | None:
    return CliRunner().invoke(nonneg, list(map(str, command))).exception


@pytest.fixture(scope="module")
def both(start_server: StartServer) -> str:
    """A server of both models that come with nonneg, `photo` first."""
    return start_server("--model", "photo", "--model", "photo-fast")


def test_a_certificate_that_is_not_trusted_is_named_with_the_variable_that_helps(
    start_server: StartServer, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -out"
    try:
        subprocess.run([*command.split(), cert, "-keyout", key], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    url = start_server("--tls-cert", str(cert), "--tls-key", str(key))
    photo = photos / "cat" / "cat-0.jpg"
    with Client(url) as client, pytest.raises(ConnectionFailed, match="not trusted here") as refused:
        client.embed(photo)
    assert "set SSL_CERT_FILE" in str(refused.value.fix)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))  # as it says
    with Client(url) as client:
        assert len(client.embed(photo)) == 1


def test_a_key_that_is_missing_is_asked_for_by_the_option_and_the_variable(
    start_server: StartServer, photos: Path, tmp_path: Path
) -> None:
    url = start_server("--api-key", "a-secret-of-enough-length")
    error = error_of("embed", photos / "cat", "-o", tmp_path / "x.npz", "--url", url)
    assert isinstance(error, Unauthorized)
    assert error.fix == "give --api-key (in Python: api_key=), or set NONNEG_API_KEY"


def test_an_index_asks_for_its_own_model_where_a_server_has_several(both: str, photos: Path, tmp_path: Path) -> None:
    made, photo = tmp_path / "x.index", photos / "cat" / "cat-0.jpg"
    for command in (
        ("index", photos / "cat", "-o", made, "--model", "photo-fast"),
        ("search", made, photo),
        ("search", made, "--text", "a cat"),
        ("index", photos / "coffee", "-o", made),
    ):
        done = CliRunner().invoke(nonneg, [*map(str, command), "--url", both])
        assert done.exit_code == 0, done.output
    with Index.open(made) as index, Client(both) as client:
        assert index.description.model == "photo-fast"
        assert index.search("a cat", through=client)[0].id.endswith(".jpg")


def test_an_index_of_another_model_is_refused_by_the_names_of_both(
    server: str, both: str, photos: Path, tmp_path: Path
) -> None:
    made = tmp_path / "x.index"
    assert error_of("index", photos / "cat", "-o", made, "--url", both, "--model", "photo-fast") is None
    for query in ((photos / "cat" / "cat-0.jpg",), ("--text", "a cat")):
        error = error_of("search", made, *query, "--url", server)
        assert isinstance(error, FingerprintMismatch)
        assert "photo-fast (" in error.message
        assert "serves photo (" in error.message


def test_a_misspelt_model_is_answered_with_the_names_of_those_that_come_along() -> None:
    error = error_of("serve", "--model", "phto")
    assert isinstance(error, BundleInvalid)
    assert "phto is neither a folder nor a model" in error.message
    assert "photo, photo-fast" in str(error.fix)


def test_stored_vectors_that_are_too_short_are_not_blamed_on_the_model(
    random_embeddings: Callable[..., Embeddings], tmp_path: Path
) -> None:
    vectors = random_embeddings()
    vectors.save(tmp_path / "v.npz")
    error = error_of("shorten", tmp_path / "v.npz", "-o", tmp_path / "w.npz", "--dimensions", vectors.dimensions + 1)
    assert isinstance(error, ParameterInvalid)
    assert f"exceeds these vectors' {vectors.dimensions}" in error.message


@pytest.mark.parametrize("content", [b"", b"a text"])
def test_what_curl_sends_of_a_wrong_file_is_said_to_be_no_image(server: str, content: bytes) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}  # of `curl --data-binary @photo.jpg`
    answer = httpx.post(f"{server}/embed", content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (415, MediaUnsupported.type)
    assert error["message"] == f"the body, {len(content)} bytes, is not an image"
    assert "curl --data-binary @photo.jpg" in error["fix"]
