"""OpenTelemetry: a span for every request, with the stages of its images as children, made when it was answered."""

import threading
from typing import Any

from nonneg_core.terminal.installing import needing
from nonneg_core.version import __version__
from nonneg_server.http.context import Completed

with needing("--otel", extra="otel"):
    from opentelemetry import propagate, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

LAST_SPANS = 2.0  # seconds


class Tracer:
    """Makes a span of every answered request; the client's traceparent makes its span the parent."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create({"service.name": "nonneg", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("nonneg", __version__)

    @classmethod
    def to_collector(cls) -> "Tracer":
        """Make a tracer that sends in the background to where the OTEL_EXPORTER_OTLP_… variables point."""
        return cls(BatchSpanProcessor(OTLPSpanExporter()))

    def close(self) -> None:
        """Send what is left, but wait for no collector that does not answer: the process is about to end."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(LAST_SPANS)

    def __call__(self, completed: Completed) -> None:
        began = int(completed.began * 1e9)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in completed.scope["headers"]}
        span = self._tracer.start_span(
            f"{completed.method} {completed.route}",
            context=propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            start_time=began,
            attributes=_attributes(completed),
        )
        if completed.status >= 500:
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        answer = completed.scope["state"].get("answer")
        if answer is not None:
            self._stages(span, answer.timing, began)
        span.end(began + int(completed.seconds * 1e9))

    def _stages(self, parent: trace.Span, timing: Any, began: int) -> None:
        """Record one stage after the other, as they were for a single image; of many, each stage's sum."""
        context = trace.set_span_in_context(parent)
        for stage in ("queue", "decode", "inference"):
            lasted = int(getattr(timing, stage) * 1e9)
            self._tracer.start_span(stage, context=context, start_time=began).end(began + lasted)
            began += lasted


def _attributes(completed: Completed) -> dict[str, str | int]:
    state = completed.scope["state"]
    attributes: dict[str, str | int] = {
        "http.request.method": completed.method,
        "http.route": completed.route,
        "http.response.status_code": completed.status,
        "nonneg.request_id": state["request_id"],
    }
    answer = state.get("answer")
    if answer is not None:
        attributes |= {
            "nonneg.model": answer.manifest.name,
            "nonneg.images": len(answer.positions) + len(answer.errors),
        }
    return attributes
