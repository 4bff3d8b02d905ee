"""mosec: one inference worker process a core, raw bytes in and out."""

from model import CORES, Model
from mosec import Server, Worker


class Embedder(Worker):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: bytes) -> bytes:
        return self.model.embed(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Embedder, num=CORES, timeout=30)
    server.run()
