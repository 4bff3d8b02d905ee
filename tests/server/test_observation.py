"""What an operator sees: metrics, drift, logs, traces."""

import asyncio
import json
import logging
import math
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import numpy as np
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.engine.model_stats import FORGET, Histogram, ModelStats
from nonneg_server.models.served_models import Registry
from nonneg_server.observation.drift import LEAST_IMAGES, MOST, Moved, drift, moved, sentences
from nonneg_server.observation.logs import Json
from nonneg_server.observation.server_metrics import METRICS
from nonneg_server.observation.tracing import Tracer
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio
Png = Callable[[int], bytes]


def client_of(registry: Registry, **settings: object) -> httpx.AsyncClient:
    app = create_app(registry, Settings(**settings))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


@pytest.fixture
def fresh(bundle: Bundle):
    engine = InferenceEngine(bundle, threads=2)
    yield Registry(engine)
    engine.close()


async def test_metrics_count_requests_images_stages_and_zero_vectors(fresh: Registry, png: Png) -> None:
    async with client_of(fresh) as client:
        for number in range(3):
            await client.post("/embed", content=png(number))
        await client.post("/embed", content=b"nonsense")
        await client.get("/no/such/path-" + "x" * 50)
        await client.post("/embed?dimensions=1&top_k=1", content=png(0))
        text = (await client.get("/metrics")).text
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["nonneg_requests_total", "/embed", "200", "POST"] == 4
    assert found["nonneg_requests_total", "/embed", "415", "POST"] == 1
    assert found["nonneg_requests_total", "404", "GET", "other"] == 1
    assert found["nonneg_images_total", "tiny"] == 4
    assert found["nonneg_image_errors_total", "image_unsupported", "tiny"] == 1
    assert found["nonneg_stage_seconds_count", "inference", "tiny"] == 4
    assert found["nonneg_request_seconds_count", "/embed", "2xx", "one"] == 4
    assert found["nonneg_request_seconds_count", "/embed", "4xx", "none"] == 1
    assert found["nonneg_images_in_flight",] == 0
    assert found["nonneg_zero_vectors_total", "tiny"] in (0, 1)
    assert "path-xxx" not in text


async def test_times_tell_answered_from_refused_requests_and_single_from_bulk(fresh: Registry, png: Png) -> None:
    async with client_of(fresh) as client:
        await client.post("/embed", content=png(0))
        await client.post("/embed?dimensions=9999", content=png(0))
        await client.post("/embed", files=[("images", b"no image")] * 2)
        text = (await client.get("/metrics")).text
    name = 'nonneg_request_seconds_count{images="%s",route="/embed",status="%s"} 1.0'
    for labels in (("one", "2xx"), ("none", "4xx"), ("many", "2xx")):
        assert name % labels in text


async def test_every_metric_is_described_and_exists(fresh: Registry) -> None:
    async with client_of(fresh) as client:
        text = (await client.get("/metrics")).text
    shown = {family.name for family in text_string_to_metric_families(text) if family.name.startswith("nonneg")}
    assert shown == set(METRICS)


def test_a_histogram_counts_as_a_slow_one_does() -> None:
    histogram, rng = Histogram((0.1, 1.0, 10.0)), np.random.default_rng(0)
    values = rng.exponential(2.0, 500)
    for value in (*values, 0.1):
        histogram.observe(value)
    for bound, count in histogram.cumulative():
        assert count == sum(value <= float(bound) for value in (*values, 0.1))
    assert histogram.sum == pytest.approx(values.sum() + 0.1)


def test_the_ledger_forgets_slowly() -> None:
    stats = ModelStats(2)
    for _ in range(4 * FORGET):
        stats.record(Encoded(np.array([1.0, 0.0]), 0, 0, 0))
    for _ in range(4 * FORGET):
        stats.record(Encoded(np.array([0.0, 1.0]), 0, 0, 0))
    assert stats.flush().images == 8 * FORGET
    first, second = stats.frequencies()
    assert first + second == pytest.approx(1)
    assert 0 < first < 0.25


def test_drift_is_the_mean_stability_index_of_the_dimensions() -> None:
    known, live = np.array([0.5, 0.2, 0.0, 0.4]), np.array([0.25, 0.2, 0.3, 0.0])
    found = drift(known, live, 1000)

    def index(p: float, q: float) -> float:
        p, q = (min(max(x, 0.0005), 0.9995) for x in (p, q))
        return (q - p) * math.log(q / p) + (p - q) * math.log((1 - q) / (1 - p))

    assert found is not None
    assert found.psi == pytest.approx(np.mean([index(p, q) for p, q in zip(known, live, strict=True)]))
    assert (found.newly_dead, found.newly_alive) == (1, 1)
    assert drift(known, live, 99) is None


def test_images_like_the_calibrations_do_not_drift() -> None:
    rng = np.random.default_rng(0)
    known = rng.uniform(0.02, 0.9, 256)
    live = (rng.random((2000, 256)) < known).mean(axis=0)
    found, other = drift(known, live, 2000), drift(known, known[::-1], 2000)
    assert found is not None
    assert other is not None
    assert found.psi < 0.01 < 0.25 < other.psi
    assert found.newly_dead == 0


def test_a_planted_shift_is_named_with_how_many_times_as_often() -> None:
    rng = np.random.default_rng(1)
    known = rng.uniform(0.02, 0.5, 512)
    now = known.copy()
    now[7], now[90] = min(3 * known[7], 0.9), 0
    found = moved(known, 5000, (rng.random((3000, 512)) < now).mean(axis=0), 3000)
    by_dimension = {m.dimension: m for m in found}
    assert {7, 90} <= set(by_dimension)
    assert by_dimension[7].times == pytest.approx(now[7] / known[7], rel=0.25)
    assert by_dimension[90].times == 0
    assert len(found) <= 4


def test_images_like_the_calibrations_name_hardly_anything_and_few_images_nothing() -> None:
    rng = np.random.default_rng(2)
    known = rng.uniform(0.02, 0.5, 512)
    drawn = [(rng.random((500, 512)) < known).mean(axis=0) for _ in range(40)]
    assert sum(bool(moved(known, 10**9, live, 500)) for live in drawn) <= 6  # 2 are expected
    assert moved(known, 5000, 1 - known, 99) == []


def test_what_moved_is_said_as_diff_says_it() -> None:
    when = " (1200 images since 1970-01-01 00:00 UTC)"
    found = [Moved(17, 0.04, 0.124), Moved(3, 0.0, 0.02), Moved(5, 0.1, 0.0)]
    assert sentences(found, {17: "snow"}, 1200, 0.0) == [
        "snow: 3.1x as often as on the calibration photos, in 12.4% of the photos instead of 4.0%" + when,
        "dim 3: new, in 2.0% of the photos" + when,
        "dim 5: gone, before in 10.0% of the photos" + when,
    ]


async def test_a_model_says_in_words_what_moved_since_it_was_loaded(fresh: Registry) -> None:
    engine = fresh.get()
    manifest = engine.bundle.manifest
    rarest = int(np.argmin(manifest.columns.frequency))
    assert manifest.columns.frequency[rarest] < 0.9
    async with client_of(fresh) as client:
        assert (await client.get(f"/models/{engine.name}")).json()["drift"] == []
        usual = np.zeros(manifest.dimensions, np.float32)
        usual[rarest] = 1
        for _ in range(LEAST_IMAGES):
            engine.stats.record(Encoded(usual, 0, 0, 0))
        said = (await client.get(f"/models/{engine.name}")).json()["drift"]
        metrics = (await client.get("/metrics")).text
    assert 0 < len(said) <= MOST
    assert all(f"({LEAST_IMAGES} images since 20" in sentence for sentence in said)
    assert any(sentence.startswith((f"dim {rarest}:",)) for sentence in said)
    assert metrics.count("\nnonneg_drift_times{") == len(said)


async def test_the_access_log_tells_a_request_in_json_and_never_its_content(
    fresh: Registry, png: Png, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nonneg.access")
    async with client_of(fresh, access_log=True) as client:
        await client.post("/embed?dimensions=4", content=png(0), headers={"x-request-id": "abc"})
    record = next(record for record in caplog.records if record.name == "nonneg.access")
    line = json.loads(Json().format(record))
    assert (line["request_id"], line["route"], line["status"], line["images"]) == ("abc", "/embed", 200, 1)
    assert line["model"] == "tiny"
    assert line["milliseconds"] > 0
    assert line["time"].endswith("Z")
    assert len(json.dumps(line)) < 400


def test_a_log_line_holds_its_exception() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        import sys

        record = logging.LogRecord("nonneg", logging.ERROR, __file__, 1, "it failed: %s", ("x",), sys.exc_info())
    line = json.loads(Json().format(record))
    assert line["message"] == "it failed: x"
    assert "ValueError: why" in line["exception"]


FRAMEWORK = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import httpx
from nonneg_server.startup.app import create_app
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.server_settings import Settings

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

async def ask():
    app = create_app(Registry(), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.get("/livez")).status_code == 200

asyncio.run(ask())
print(len(spans.get_finished_spans()))
"""


@pytest.mark.slow
def test_without_being_asked_nothing_traces_also_where_a_tracer_is_set_up() -> None:
    done = subprocess.run([sys.executable, "-c", FRAMEWORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"


async def test_a_request_is_a_span_with_its_stages_under_the_clients_trace(fresh: Registry, png: Png) -> None:
    memory = InMemorySpanExporter()
    app = create_app(fresh, Settings())
    app.state.shared.observers.append(Tracer(SimpleSpanProcessor(memory)))
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        await client.post("/embed", content=png(0), headers={"traceparent": f"00-{trace}-{parent}-01"})
    spans = {span.name: span for span in memory.get_finished_spans()}
    assert set(spans) == {"POST /embed", "queue", "decode", "inference"}
    root = spans["POST /embed"]
    assert f"{root.context.trace_id:032x}" == trace
    assert f"{root.parent.span_id:016x}" == parent
    assert root.attributes["nonneg.images"] == 1
    for stage in ("queue", "decode", "inference"):
        assert spans[stage].parent.span_id == root.context.span_id
        assert root.start_time <= spans[stage].start_time <= spans[stage].end_time <= root.end_time


def test_traces_reach_a_collector(start: Callable, bundle: Bundle, png: Png, monkeypatch: pytest.MonkeyPatch) -> None:
    received = threading.Event()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces" and b"inference" in body:
                received.set()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with start("--model", str(bundle.path), "--drain", "0", "--otel", "--log-level", "error") as (address, _):
            assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
            assert received.wait(15)
        collector.shutdown()
        thread.join(60)


@pytest.mark.slow
def test_a_collector_that_never_answers_keeps_no_process_alive(
    start: Callable, bundle: Bundle, png: Png, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        flags = ("--model", str(bundle.path), "--drain", "0", "--otel", "--log-format", "json")
        with start(*flags) as (address, process):  # reads the address from a line of JSON, too
            assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
            process.terminate()
            assert process.wait(60) == 0  # the collector never answers
            assert all(json.loads(line)["level"] for line in process.stderr)


@pytest.mark.parametrize(
    ("value", "status"), [("0.000001", 504), ("30", 200), ("-1", 422), ("soon", 422), ("inf", 422)]
)
async def test_a_clients_deadline_drops_its_work(fresh: Registry, png: Png, value: str, status: int) -> None:
    async with client_of(fresh) as client:
        found = await client.post("/embed", content=png(0), headers={"x-request-timeout": value})
        assert found.status_code == status
    await asyncio.sleep(0)
    assert fresh.get().admission.images == 0
