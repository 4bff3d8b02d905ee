"""BentoML: `workers="cpu_count"`, an image as root input so that the body is the JPEG itself."""

from pathlib import Path
from typing import Annotated

import bentoml
from bentoml.validators import ContentType
from model import Model


@bentoml.service(workers="cpu_count", traffic={"timeout": 60, "max_concurrency": 10_000})
class Embedder:
    def __init__(self) -> None:
        self.model = Model()

    @bentoml.api(route="/embed")
    def embed(self, image: Annotated[Path, ContentType("image/jpeg")], /) -> str:
        return self.model.embed(image.read_bytes()).decode()
