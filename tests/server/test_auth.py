import hashlib
import hmac
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from nonneg_cli.key import key
from nonneg_core.errors import ConfigInvalid, RateLimited
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.http.auth import RateLimiter
from nonneg_server.http.keys import read_keys
from nonneg_server.http.origin import client_behind
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_server.startup.setting_sources import read_settings

pytestmark = pytest.mark.anyio
SECRET = "a-secret-of-enough-length"


def test_a_made_key_is_known_by_its_line_and_only_its_hash_is_written(tmp_path: Path) -> None:
    made = CliRunner().invoke(key, ["laptop"])
    line, secret = made.stdout.strip(), made.stderr.strip().rpartition(" ")[2]
    assert secret not in line
    file = tmp_path / "keys"
    file.write_text(f"# who may ask\n{line}\nother sha256:{hashlib.sha256(b'x' * 20).hexdigest()}  # a script\n\n")
    keys = read_keys((), file)
    assert keys.name_of(secret) == "laptop"
    assert keys.name_of("x" * 20) == "other"
    assert keys.name_of(secret[:-1]) is None
    assert keys.name_of("") is None
    assert secret not in repr(vars(keys))


@pytest.mark.parametrize("text", ["laptop plain-text", "a b sha256:00", "laptop sha256:xyz", "laptop sha256:00"])
def test_a_line_that_is_not_a_key_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigInvalid, match="line 1"):
        read_keys((), file)


@pytest.mark.parametrize("text", ["", "# laptop sha256:00\n\n"])
def test_a_file_without_keys_does_not_open_the_server(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigInvalid, match="holds no key"):
        read_keys((), file)


@pytest.mark.parametrize("text", ["", ",", ",,"])
def test_a_variable_without_keys_does_not_open_the_server(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NONNEG_API_KEY", text)
    with pytest.raises(ConfigInvalid, match="NONNEG_API_KEY is set and holds no key"):
        read_settings()
    assert read_settings(api_key=(SECRET,)).api_key == (SECRET,)


def test_short_keys_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="nonneg key"):
        read_keys(("short",), None)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        read_keys((), tmp_path / "nothing")


async def test_every_route_but_health_is_closed_without_a_key(registry: Registry, png: Callable[[int], bytes]) -> None:
    app = create_app(registry, Settings(api_key=(SECRET,)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        opened = {"/livez", "/readyz", "/health", "/v2/health/live", "/v2/health/ready"}
        opened |= {"/", "/studio/page/{file}"}  # the page, which asks for a key
        for route in app.routes:
            path = route.path.replace("{model}", "tiny").replace("{version}", "1").replace("{dimension}", "1")
            for method in route.methods or ():
                found = await client.request(method, path)
                if (method, path) in {("GET", path) for path in opened}:
                    assert found.status_code != 401, path
                else:
                    assert found.status_code == 401, path
                    assert found.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/nowhere")).status_code == 401
        wrong = await client.post("/embed", content=png(0), headers={"authorization": "Bearer nonsense"})
        assert (wrong.status_code, wrong.json()["error"]["type"]) == (401, "unauthorized")
        for headers in ({"authorization": f"Bearer {SECRET}"}, {"x-api-key": SECRET}):
            assert (await client.post("/embed", content=png(0), headers=headers)).status_code == 200


def test_a_bucket_gives_its_burst_then_the_rate() -> None:
    rate = RateLimiter(2.0, burst=3)
    for _ in range(3):
        rate.take("a", 100.0)
    with pytest.raises(RateLimited) as refused:
        rate.take("a", 100.0)
    assert refused.value.retry_after == pytest.approx(0.5)
    rate.take("b", 100.0)
    rate.take("a", 100.6)
    with pytest.raises(RateLimited):
        rate.take("a", 100.6)


async def test_too_many_requests_of_one_client_get_429(registry: Registry) -> None:
    app = create_app(registry, Settings(rate=1, burst=2))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        found = [await client.get("/models") for _ in range(4)]
        assert [answer.status_code for answer in found] == [200, 200, 429, 429]
        assert found[2].headers["retry-after"] == "1"
        assert found[2].json()["error"]["type"] == "rate_limited"
        assert (await client.get("/livez")).status_code == 200
        assert b'nonneg_requests_total{method="GET",route="/models",status="429"} 2.0' in app.state.metrics.render()


async def test_the_rate_counts_images_and_what_a_request_takes_beyond_is_owed(
    registry: Registry, png: Callable[[int], bytes]
) -> None:
    app = create_app(registry, Settings(rate=0.01, burst=6))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def status(images: int) -> int:
            files = [("images", png(0))] * images
            return (await client.post("/embed", files=files)).status_code

        assert [await status(images) for images in (4, 1, 3, 1)] == [200, 200, 200, 429]
        owed = (await client.get("/models")).headers["retry-after"]
        assert int(owed) == pytest.approx(300, abs=5)  # 8 of 6 were taken: three are due until one is there


async def test_a_key_for_metrics_opens_nothing_else(registry: Registry, tmp_path: Path) -> None:
    made = CliRunner().invoke(key, ["prometheus", "--metrics"])
    (tmp_path / "keys").write_text(made.stdout + f"script sha256:{hashlib.sha256(SECRET.encode()).hexdigest()}\n")
    headers = {"authorization": f"Bearer {made.stderr.strip().rpartition(' ')[2]}"}
    app = create_app(registry, Settings(api_key_file=tmp_path / "keys"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.get("/metrics", headers=headers)).status_code == 200
        for method, path in (("POST", "/embed"), ("GET", "/models"), ("GET", "/metrics/"), ("POST", "/shorten")):
            refused = await client.request(method, path, headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (403, "forbidden")
            assert "prometheus opens GET /metrics alone" in refused.json()["error"]["message"]
        assert (await client.get("/models", headers={"x-api-key": SECRET})).status_code == 200


PROXY = ("10.0.0.1", 5)


@pytest.mark.parametrize(
    ("client", "header", "address"),
    [
        (PROXY, b"192.0.2.7", "192.0.2.7"),
        (PROXY, b"1.2.3.4, 192.0.2.7", "192.0.2.7"),  # a client that writes the header itself
        (PROXY, b"192.0.2.7, 10.0.0.9", "192.0.2.7"),
        (PROXY, b"192.0.2.7:4711", "192.0.2.7"),
        (PROXY, b"[2001:db8::7]:4711", "2001:db8::7"),
        (PROXY, b"1.2.3.4, nonsense", "10.0.0.1"),
        (PROXY, b"", "10.0.0.1"),
        (("::ffff:10.0.0.1", 5), b"192.0.2.7", "192.0.2.7"),
        (("192.0.2.8", 5), b"192.0.2.7", "192.0.2.8"),  # not a proxy that is trusted
    ],
)
def test_a_client_is_who_the_trusted_proxies_say(client: tuple[str, int], header: bytes, address: str) -> None:
    seen = client_behind(client, [(b"x-forwarded-for", header)], [ip_network("10.0.0.0/8")])
    assert seen is not None
    assert seen[0] == address


def test_rates_and_logs_know_clients_behind_a_trusted_proxy_by_their_address(start: Callable, bundle: Bundle) -> None:
    flags = ("--model", str(bundle.path), "--drain", "0", "--rate", "0.01", "--burst", "1")
    with start(*flags, "--access-log", "--log-level", "info", "--trusted-proxy", "127.0.0.0/8") as (address, process):

        def status(client: str) -> int:
            return httpx.get(f"{address}/models", headers={"x-forwarded-for": client}).status_code

        clients = ("192.0.2.1", "192.0.2.1", "192.0.2.2", "9.9.9.9, 192.0.2.2")
        assert [status(client) for client in clients] == [200, 429, 200, 429]
        process.terminate()
        process.wait(20)
    with pytest.raises(ConfigInvalid, match="--trusted-proxy"):
        read_settings(trusted_proxy=("proxy.example",))


async def test_each_key_has_a_rate_of_its_own(registry: Registry) -> None:
    other = "another-secret-of-enough-length"
    app = create_app(registry, Settings(rate=0.5, burst=2, api_key=(SECRET, other)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def ask(key: str) -> int:
            return (await client.get("/models", headers={"authorization": f"Bearer {key}"})).status_code

        assert [await ask(SECRET) for _ in range(3)] == [200, 200, 429]
        assert [await ask(other) for _ in range(3)] == [200, 200, 429]
        assert [await ask("a-key-that-is-not-known") for _ in range(4)] == [401] * 4  # who has none has no bucket
        assert await ask(SECRET) == 429


def test_every_key_is_compared_whole_whichever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where a guess differs nor whose key it is shows in what is compared."""
    keys = read_keys(tuple(f"secret-number-{n}-of-enough-length" for n in range(5)), None)
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr("nonneg_server.http.keys.hmac.compare_digest", watched)
    for guess in ("", "x", "secret-number-0-of-enough-length", "secret-number-4-of-enough-length", "s" * 10_000):
        compared.clear()
        keys.name_of(guess)
        assert compared == [(32, 32)] * 5


async def test_browsers_of_an_allowed_origin_may_ask_and_preflights_need_no_key(registry: Registry) -> None:
    app = create_app(registry, Settings(cors_origin=("https://ok.example",), api_key=(SECRET,)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        asked = {"origin": "https://ok.example", "access-control-request-method": "POST"}
        allowed = await client.options("/embed", headers={**asked, "access-control-request-headers": "authorization"})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://ok.example"
        other = await client.get("/livez", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        mine = {"origin": "https://ok.example", "authorization": f"Bearer {SECRET}"}
        shown = (await client.get("/models", headers=mine)).headers["access-control-expose-headers"]
        assert {"x-request-id", "retry-after"} <= set(shown.split(", "))


def certificate(folder: Path) -> tuple[Path, Path]:
    """One for 127.0.0.1, and its key."""
    cert, secret = folder / "cert.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    try:
        subprocess.run([*command.split(), "-out", cert, "-keyout", secret], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    return cert, secret


@pytest.mark.slow
def test_tls_serves_https_and_half_a_configuration_is_refused(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    cert, secret = certificate(tmp_path)
    flags = ("--model", str(bundle.path), "--drain", "0", "--tls-cert", str(cert), "--tls-key", str(secret))
    with start(*flags) as (address, _):
        assert address.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        assert httpx.get(f"{address}/livez", verify=trust).status_code == 200
    with pytest.raises(AssertionError, match="--tls-key"), start(*flags[:-2]):
        pass


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_a_hangup_reads_the_certificate_anew_and_one_that_does_not_fit_changes_nothing(
    start: Callable, bundle: Bundle, tmp_path: Path
) -> None:
    cert, secret = certificate(tmp_path)
    flags = ("--model", str(bundle.path), "--drain", "0", "--tls-cert", str(cert), "--tls-key", str(secret))
    with start(*flags) as (address, process):
        port = httpx.URL(address).port

        def presented() -> str:
            return ssl.get_server_certificate(("127.0.0.1", port))

        def after_hangup(wanted: str) -> bool:
            process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 60
            while presented() != wanted and time.monotonic() < until:
                time.sleep(0.05)
            return presented() == wanted

        first = presented()
        assert first == cert.read_text()
        certificate(tmp_path)
        assert after_hangup(cert.read_text())
        second = presented()
        assert second != first
        secret.write_text("nonsense")
        cert.write_text(first)
        assert after_hangup(second)
        process.terminate()
        assert process.wait(20) == 0
        assert "the certificate stays as it was" in process.stderr.read()
