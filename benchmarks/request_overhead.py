"""What a request costs beside the inference: POST /embed against a bare FastAPI route that returns the same bytes.

    python benchmarks/request_overhead.py

Both applications are called in this process, without sockets, in turns; the engine hands back a vector that it had
before. CPU time of the thread, the median of many rounds. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.process import cores_and_allocator as allocator
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.models.served_models import Registry
from nonneg_server.pipeline.answer_forms import write_json
from nonneg_server.pipeline.request_pipeline import EncodedBatch, shortened
from nonneg_server.requests.parameters import Parameters
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

BODY = bytes(range(256)) * 160  # 40 kB, as long as a small photo; it is not decoded
Send = Callable[[bytes, dict[str, str], str], Awaitable[bytes]]


class Still(InferenceEngine):
    """An engine that has its answer ready."""

    ready: Encoded

    async def encode_all(self, images: Sequence[Any], *, deadline: float | None = None) -> list[Any]:
        return [self.ready for _ in images]


def multipart(body: bytes) -> tuple[bytes, dict[str, str]]:
    edge = "boundary5f0c"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n\r\n'.encode()
    return head + body + f"\r\n--{edge}--\r\n".encode(), {"content-type": f"multipart/form-data; boundary={edge}"}


def caller(app: Any, path: str, query: str, body: bytes, headers: dict[str, str]) -> Callable[[], Awaitable[bytes]]:
    """Send one request to an ASGI application and return the answer's body."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    raw += [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), (b"accept", b"*/*")]

    async def call() -> bytes:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": list(raw), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        sent: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                sent.append(message["body"])

        await app(scope, receive, send)
        return b"".join(sent)

    return call


def bare(content: bytes) -> FastAPI:
    """Do the least FastAPI can do with a body: read it and answer."""
    app = FastAPI()

    @app.post("/bare")
    async def answer(request: Request) -> Response:
        await request.body()
        return Response(content, media_type="application/json")

    return app


async def measured(calls: dict[str, Callable[[], Awaitable[bytes]]], rounds: int, each: int) -> dict[str, list[float]]:
    """Return the microseconds of CPU a call, a number a round; the calls take turns so that noise meets all alike."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.thread_time()
            for _ in range(each):
                await call()
            found[name].append((time.thread_time() - started) / each * 1e6)
    return {name: times[len(times) // 10 :] for name, times in found.items()}


def serialising(manifest: Any, share: float, rounds: int = 60) -> dict[str, float]:
    """Time writing 64 x 2048 as JSON, dense and sparse, beside orjson on the bare matrix, in turns (microseconds)."""
    rng = np.random.default_rng(0)
    z = rng.random((64, 2048), dtype=np.float32)
    z[rng.random(z.shape) > share] = 0
    raw = EncodedBatch(z, list(range(64)), {})
    lengths = (manifest.dimensions,)
    dense, sparse = (shortened(manifest, raw, Parameters(format=form), lengths) for form in ("dense", "sparse"))
    ways = {
        "orjson": lambda: orjson.dumps(dense.vectors[0], option=orjson.OPT_SERIALIZE_NUMPY),
        "dense": lambda: write_json(dense),
        "sparse": lambda: write_json(sparse),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(rounds):
        for name in list(ways) if i % 2 else reversed(ways):
            started = time.thread_time()
            ways[name]()
            found[name].append((time.thread_time() - started) * 1e6)
    return {"active": share, **{f"{name}_us": statistics.median(times) for name, times in found.items()}}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--each", type=int, default=50)
    options = parser.parse_args()
    allocator.tune_for_serving()  # as the server does
    bundle = open_bundle()
    engine = Still(bundle, threads=1, all_cores=False)
    rng = np.random.default_rng(0)
    vector = rng.random(bundle.manifest.dimensions, dtype=np.float32)
    vector[rng.random(vector.size) > 0.25] = 0  # about as many active dimensions as a photo has
    engine.ready = Encoded(vector, 0.0, 0.0, 0.0)
    app = create_app(Registry(engine), Settings())

    image = {"content-type": "image/jpeg"}
    form, form_type = multipart(BODY)
    listed, json_type = (
        orjson.dumps({"images": [base64.b64encode(BODY).decode()]}),
        {"content-type": "application/json"},
    )
    sparse = await caller(app, "/embed", "dimensions=512&top_k=64", BODY, image)()
    assert orjson.loads(sparse)["data"][0]["nnz"] == 64, sparse
    calls = {
        "bare FastAPI, raw in": caller(bare(sparse), "/bare", "", BODY, image),
        "raw in, sparse out, 512 and top 64": caller(app, "/embed", "dimensions=512&top_k=64", BODY, image),
        "raw in, sparse out, full length": caller(app, "/embed", "", BODY, image),
        "raw in, dense out, full length": caller(app, "/embed", "format=dense", BODY, image),
        "multipart in, sparse out, 512 and top 64": caller(app, "/embed", "dimensions=512&top_k=64", form, form_type),
        "base64 JSON in, sparse out, 512 and top 64": caller(
            app, "/embed", "dimensions=512&top_k=64", listed, json_type
        ),
    }
    times = await measured(calls, options.rounds, options.each)
    engine.close()
    base = statistics.median(times["bare FastAPI, raw in"])
    print(f"{'CPU a request, microseconds':<46} {'median':>8} {'more':>8} {'spread':>8}")
    rows = {}
    for name, found in times.items():
        middle, low, high = statistics.median(found), *statistics.quantiles(found, n=10)[::8]
        rows[name] = {"median_us": round(middle, 1), "more_us": round(middle - base, 1), "p10_p90": [low, high]}
        print(f"{name:<46} {middle:8.1f} {middle - base:+8.1f} {low:.0f}-{high:.0f}")
    print(f"\n{'64 x 2048 floats to JSON, us':<46} {'orjson':>8} {'dense':>14} {'sparse':>14}")
    written = [serialising(bundle.manifest, share) for share in (0.1, 0.25, 1.0)]
    for row in written:
        base, dense, sparse = (row[f"{name}_us"] for name in ("orjson", "dense", "sparse"))
        print(f"{row['active']:<46.0%} {base:8.0f} {dense:7.0f} x{dense / base:.3f} {sparse:7.0f} x{sparse / base:.3f}")
    print(json.dumps({"benchmark": "request_overhead", "rows": rows, "serialising": written, **provenance()}))


if __name__ == "__main__":
    asyncio.run(main())
