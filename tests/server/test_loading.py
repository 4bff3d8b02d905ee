"""What a probe and an early client are answered while models take long to load: really long, of many models."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.slow
Popen = subprocess.Popen[str]
MANY = 30  # of the default model: some seconds, on any machine


@contextmanager
def loading(*flags: str) -> Iterator[tuple[str, Popen]]:
    """A server that has many models to load before it serves, and its address."""
    from nonneg_runtime.bundle.bundle_folder import DEFAULT

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    models = [word for number in range(MANY) for word in ("--model", f"m{number}={DEFAULT}")]
    line = [
        sys.executable,
        "-m",
        "nonneg_cli",
        "serve",
        "--port",
        str(port),
        "--drain",
        "0",
        *models,
        *flags,
        "--model-memory",
        "50000000",
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()
            process.communicate(timeout=120)


def first_answer(address: str, path: str) -> httpx.Response:
    """As soon as the server listens."""
    until = time.monotonic() + 120
    while True:
        try:
            return httpx.get(address + path, timeout=60, headers={"X-Request-ID": "early"}, verify=False)
        except httpx.ConnectError:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_while_models_load_it_is_alive_and_not_ready_and_then_it_serves() -> None:
    with loading() as (address, process), socket.socket() as silent:
        found = first_answer(address, "/livez")
        assert (found.status_code, found.json()) == (200, {"status": "alive"})
        assert found.headers["x-request-id"] == "early"
        host, _, port = address[7:].partition(":")
        silent.connect((host, int(port)))  # delays no other client
        assert httpx.head(f"{address}/v2/health/live").status_code == 200
        ready = httpx.get(f"{address}/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
        assert ready.json()["error"]["message"] == "the models are loading", "it was asked too late: load more models"
        assert ready.json()["request_id"] == ready.headers["x-request-id"]
        assert httpx.get(f"{address}/health").json() == {
            "error": "the models are loading: wait for /readyz",
            "error_type": "unhealthy",
        }
        refused = httpx.post(f"{address}/embed", content=bytes(3_000_000))
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "not_ready")
        statuses, until = [503], time.monotonic() + 240
        while statuses[-1] != 200:  # no connection is refused or reset in between
            assert time.monotonic() < until
            statuses.append(httpx.get(f"{address}/readyz", timeout=60).status_code)
            time.sleep(0.05)
        assert set(statuses) == {200, 503}
        assert "serves m0" in process.stdout.readline()
        assert len(httpx.get(f"{address}/models").json()["models"]) == MANY
        process.terminate()
        assert process.communicate(timeout=120)[1] == ""


def test_a_server_that_is_told_to_end_while_it_loads_ends_with_0_and_has_logged_who_came() -> None:
    with loading("--access-log", "--log-format", "json") as (address, process):
        assert first_answer(address, "/livez").status_code == 200
        process.terminate()
        said, log = process.communicate(timeout=120)
        assert (said, process.returncode) == ("", 0)
    (line,) = map(json.loads, log.splitlines())
    assert (line["request_id"], line["route"], line["method"], line["status"]) == ("early", "/livez", "GET", 200)


def test_a_model_that_cannot_be_loaded_ends_the_process_and_is_named(bundle: Bundle, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(bundle.path, broken)
    (broken / "encoder.onnx").write_bytes(b"no encoder")
    line = [sys.executable, "-m", "nonneg_cli", "serve", "--port", "0", "--model", str(bundle.path)]
    done = subprocess.run(
        [*line, "--model", f"broken={broken}"], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert str(broken) in done.stderr
    assert "Fix:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("spoilt", [False, True])
def test_the_probe_may_come_by_https_and_a_broken_certificate_ends_the_start(tmp_path: Path, spoilt: bool) -> None:
    cert, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=t -keyout {secret} -out {cert}"
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    if spoilt:
        secret.write_text("nonsense")
    with loading("--tls-cert", str(cert), "--tls-key", str(secret)) as (address, process):
        if spoilt:
            assert process.wait(240) == 1
            said = process.stderr.read()
            assert "cannot be used for https" in said
            assert "Traceback" not in said
        else:
            assert first_answer(address.replace("http:", "https:"), "/livez").json() == {"status": "alive"}


def test_a_client_that_comes_early_is_served_or_told_when_to_come_again(
    bundle: Bundle, png: Callable[[int], bytes]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "nonneg_cli", "serve", "--port", str(port), "--drain", "0"]
    with subprocess.Popen([*line, "--model", str(bundle.path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            address, until = f"http://127.0.0.1:{port}", time.monotonic() + 30
            while (found := first_answer(address, "/readyz")).status_code != 200:
                assert (found.status_code, found.headers["retry-after"]) == (503, "1")
                assert time.monotonic() < until
            assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=120)
