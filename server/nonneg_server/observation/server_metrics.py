"""Prometheus metrics: nothing is computed until they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nonneg_core.version import __version__
from nonneg_runtime.words.column_facts import names_of
from nonneg_server.engine.model_stats import SECONDS, Histogram
from nonneg_server.observation.drift import drift, moved_at
from nonneg_server.observation.logs import lines_lost

if TYPE_CHECKING:
    from nonneg_server.engine.inference_engine import InferenceEngine
    from nonneg_server.http.connection_limits import ConnectionState
    from nonneg_server.http.context import Completed
    from nonneg_server.models.served_models import Registry

METRICS = {
    "nonneg_requests": "Requests answered, by route, method and status.",
    "nonneg_request_seconds": "Time from a request's headers to its answer, by route, class of status (2xx) and "
    "images embedded (one, many, none).",
    "nonneg_images": "Images embedded, by model.",
    "nonneg_texts": "Texts embedded by a text tower, by model.",
    "nonneg_image_errors": "Images that could not be embedded, by model and error type.",
    "nonneg_zero_vectors": "Vectors of which nothing was left after shortening, by model.",
    "nonneg_stage_seconds": "Time of an image in a stage (queue, decode, inference), by model.",
    "nonneg_nnz": "Active dimensions of an image's whole vector, by model.",
    "nonneg_request_images": "Images of a request, and texts for a text tower, by model.",
    "nonneg_batch_images": "Images of a batch that a device was given (with --batch), by model.",
    "nonneg_images_in_flight": "Images, and texts for a text tower, queued or being worked on.",
    "nonneg_bytes_in_flight": "Their bytes.",
    "nonneg_queue_limit_images": "Images that may be in flight (--queue).",
    "nonneg_queue_limit_bytes": "Bytes that they may have (--queue-bytes).",
    "nonneg_images_per_second": "The measured rate of service, of which Retry-After is made.",
    "nonneg_cache_hits": "Images whose vector the cache knew (with --cache or --cache-dir).",
    "nonneg_cache_misses": "Images whose vector it did not know.",
    "nonneg_cache_bytes": "Bytes it holds in memory.",
    "nonneg_cache_dir_hits": "Of the hits, those that were found on the disk (with --cache-dir).",
    "nonneg_cache_dir_bytes": "Bytes it uses there, all servers together.",
    "nonneg_cache_dir_failures": "Times it could not be read or written.",
    "nonneg_refused": "Requests refused because the queue was full.",
    "nonneg_connections": "Open connections, unfinished TLS handshakes among them.",
    "nonneg_turned_away": "Clients answered or cut off before the application saw them, by error type.",
    "nonneg_upload_bytes": "Bytes of requests that arrive or are in work, of images fetched for them, and of answers.",
    "nonneg_log_lines_lost": "Lines of the log that were dropped because they were not read in time.",
    "nonneg_draining": "1 while the server is shutting down.",
    "nonneg_model_info": "1 for every model served, with its version and fingerprint.",
    "nonneg_load_failures": "Times a model could not be loaded or reloaded; what was served went on.",
    "nonneg_model_loaded": "1 while a model's weights are in memory, 0 while it rests.",
    "nonneg_canary_cosine": "Of the picture that is sent through queue, decoder and session while serving, the cosine "
    "between its vector and the recorded one, by model.",
    "nonneg_canary_bound": "Least such cosine; below it the model takes no more requests, by model.",
    "nonneg_drift_psi": "Population stability index of live activations against the calibration's, by model.",
    "nonneg_drift_times": "The ten dimensions that moved most, and how many times as often as on calibration images "
    "they are active; by model, dimension and name.",
    "nonneg_drift_newly_dead": "Dimensions active on calibration images and on no recent one, by model.",
    "nonneg_drift_newly_alive": "Dimensions active now that no calibration image activated, by model.",
    "nonneg_build_info": "1, with the version of this server.",
}


class Traffic:
    """Requests by route, method and status; their time by what can be compared: what is refused is answered at once."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[tuple[str, str, str], Histogram] = {}

    def __call__(self, completed: Completed) -> None:
        """Count an answered request."""
        self.requests[completed.route, completed.method, completed.status] += 1
        answer = completed.scope["state"].get("answer")
        images = "none" if answer is None else "one" if answer.images == 1 else "many"
        labels = completed.route, f"{completed.status // 100}xx", images
        histogram = self.seconds.get(labels)
        if histogram is None:
            histogram = self.seconds[labels] = Histogram(SECONDS)
        histogram.observe(completed.seconds)


class Metrics(Collector):
    """All of the server's numbers, in Prometheus's words."""

    def __init__(self, registry: Registry, shared: ConnectionState, traffic: Traffic) -> None:
        self._models, self._shared, self._traffic = registry, shared, traffic
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def render(self) -> bytes:
        """Return the text that a scrape gets."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._of_requests()
        yield from self._of_models(self._models.all())
        yield _value(_counter("nonneg_load_failures"), self._models.load_failures)
        yield from self._of_queue()

    def _of_requests(self) -> Iterator[Metric]:
        requests = _counter("nonneg_requests", "route", "method", "status")
        for (route, method, status), count in self._traffic.requests.items():
            requests.add_metric([route, method, str(status)], count)
        seconds = _histogram("nonneg_request_seconds", "route", "status", "images")
        for labels, histogram in self._traffic.seconds.items():
            seconds.add_metric(labels, histogram.cumulative(), histogram.sum)
        yield from (requests, seconds)

    def _of_models(self, engines: list[InferenceEngine]) -> Iterator[Metric]:
        info = _gauge("nonneg_model_info", "model", "version", "fingerprint")
        loaded = _gauge("nonneg_model_loaded", "model")
        images, texts = _counter("nonneg_images", "model"), _counter("nonneg_texts", "model")
        zero = _counter("nonneg_zero_vectors", "model")
        errors = _counter("nonneg_image_errors", "model", "type")
        stages = _histogram("nonneg_stage_seconds", "model", "stage")
        counted = {name: _histogram(f"nonneg_{name}", "model") for name in ("nnz", "request_images", "batch_images")}
        cosine, bound = _gauge("nonneg_canary_cosine", "model"), _gauge("nonneg_canary_bound", "model")
        for engine in engines:
            if engine.canary is not None and engine.canary.cosine is not None:
                cosine.add_metric([engine.name], engine.canary.cosine)
                bound.add_metric([engine.name], engine.canary.bound)
            name, stats, manifest = engine.name, engine.stats.flush(), engine.bundle.manifest
            info.add_metric([name, manifest.version, manifest.fingerprint], 1)
            loaded.add_metric([name], engine.sessions.loaded)
            images.add_metric([name], stats.images)
            texts.add_metric([name], stats.texts)
            zero.add_metric([name], stats.zero_vectors)
            for kind, count in stats.errors.items():
                errors.add_metric([name, kind], count)
            for stage, histogram in (("queue", stats.queue), ("decode", stats.decode), ("inference", stats.run)):
                stages.add_metric([name, stage], histogram.cumulative(), histogram.sum)
            for family, histogram in zip(
                counted.values(), (stats.nnz, stats.request_images, stats.batches), strict=True
            ):
                family.add_metric([name], histogram.cumulative(), histogram.sum)
        yield from (
            cosine,
            bound,
            info,
            loaded,
            images,
            texts,
            zero,
            errors,
            stages,
            *counted.values(),
            *self._of_drift(engines),
        )

    def _of_drift(self, engines: list[InferenceEngine]) -> Iterator[Metric]:
        psi, dead = _gauge("nonneg_drift_psi", "model"), _gauge("nonneg_drift_newly_dead", "model")
        alive = _gauge("nonneg_drift_newly_alive", "model")
        times = _gauge("nonneg_drift_times", "model", "dimension", "name")
        for engine in engines:
            known = np.asarray(engine.bundle.manifest.columns.frequency)
            change = drift(known, engine.stats.frequencies(), engine.stats.weight)
            for m in moved_at(engine):
                called = names_of(engine.bundle).get(m.dimension, "")
                times.add_metric([engine.name, str(m.dimension), called], m.times)
            if change is not None:
                psi.add_metric([engine.name], change.psi)
                dead.add_metric([engine.name], change.newly_dead)
                alive.add_metric([engine.name], change.newly_alive)
        yield from (psi, times, dead, alive)

    def _of_queue(self) -> Iterator[Metric]:
        admission = self._models.admission
        if admission is not None:
            yield _value(_gauge("nonneg_images_in_flight"), admission.images)
            yield _value(_gauge("nonneg_bytes_in_flight"), admission.bytes)
            yield _value(_gauge("nonneg_queue_limit_images"), admission.max_images)
            yield _value(_gauge("nonneg_queue_limit_bytes"), admission.max_bytes)
            yield _value(_gauge("nonneg_images_per_second"), admission.rate)
            yield _value(_counter("nonneg_refused"), admission.refused)
        yield from self._of_cache()
        yield _value(_gauge("nonneg_connections"), self._shared.open + self._shared.handshakes)
        turned_away = _counter("nonneg_turned_away", "type")
        for kind, count in self._shared.turned_away.items():
            turned_away.add_metric([kind], count)
        yield turned_away
        yield _value(_gauge("nonneg_upload_bytes"), self._shared.buffered)
        yield _value(_counter("nonneg_log_lines_lost"), lines_lost())
        yield _value(_gauge("nonneg_draining"), self._shared.draining)
        build = _gauge("nonneg_build_info", "version")
        build.add_metric([__version__], 1)
        yield build

    def _of_cache(self) -> Iterator[Metric]:
        cache = next((engine.cache for engine in self._models.all()), None)
        disk = None if cache is None else cache.disk
        yield _value(_counter("nonneg_cache_hits"), 0 if cache is None else cache.hits)
        yield _value(_counter("nonneg_cache_misses"), 0 if cache is None else cache.misses)
        yield _value(_gauge("nonneg_cache_bytes"), 0 if cache is None else cache.bytes)
        yield _value(_counter("nonneg_cache_dir_hits"), 0 if disk is None else disk.hits)
        yield _value(_gauge("nonneg_cache_dir_bytes"), 0 if disk is None else disk.bytes)
        yield _value(_counter("nonneg_cache_dir_failures"), 0 if disk is None else disk.failures)


def _counter(name: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, METRICS[name], labels=labels)


def _gauge(name: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], labels=labels)


def _histogram(name: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, METRICS[name], labels=labels)


def _value(family: CounterMetricFamily | GaugeMetricFamily, value: float) -> Metric:
    family.add_metric([], value)
    return family
