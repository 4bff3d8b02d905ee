"""LitServe: one worker process a core on the CPU device, raw body in, finished response out."""

from typing import Annotated

import litserve
from fastapi import Body, Response
from model import CORES, PORT, Model


class Api(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self.model = Model()

    def decode_request(self, request: Annotated[bytes, Body(media_type="image/jpeg")]) -> bytes:
        return request

    def predict(self, x: bytes) -> bytes:
        return self.model.embed(x)

    def encode_response(self, output: bytes) -> Response:
        return Response(output, media_type="application/json")


if __name__ == "__main__":
    server = litserve.LitServer(Api(api_path="/embed"), accelerator="cpu", workers_per_device=CORES)
    server.run(host="127.0.0.1", port=PORT, generate_client_file=False, log_level="warning")
