"""Ray Serve: one replica a core, behind its HTTP proxy."""

import time

import ray
from model import CORES, PORT, Model
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=CORES, ray_actor_options={"num_cpus": 1}, max_ongoing_requests=16)
class Embedder:
    def __init__(self) -> None:
        self.model = Model()

    async def __call__(self, request: Request) -> Response:
        return Response(self.model.embed(await request.body()), media_type="application/json")


if __name__ == "__main__":
    # The proxy needs a slot of its own beside the replicas: `num_cpus` here is Ray's bookkeeping, not threads.
    ray.init(num_cpus=CORES + 1, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(Embedder.bind(), route_prefix="/embed")
    while True:
        time.sleep(3600)
