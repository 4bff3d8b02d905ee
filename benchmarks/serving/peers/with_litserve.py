"""LitServe: one worker process a core on the CPU device, raw request in, finished response out."""

import litserve
from fastapi import Request, Response
from model import CORES, PORT, Model


class Api(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self.model = Model()

    async def decode_request(self, request: Request) -> bytes:
        return await request.body()

    def predict(self, x: bytes) -> bytes:
        return self.model.embed(x)

    def encode_response(self, output: bytes) -> Response:
        return Response(output, media_type="application/json")


if __name__ == "__main__":
    server = litserve.LitServer(Api(api_path="/embed"), accelerator="cpu", workers_per_device=CORES)
    server.run(host="127.0.0.1", port=PORT, generate_client_file=False, log_level="warning")
