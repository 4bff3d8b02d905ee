"""The asynchronous client: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from nonneg_client.embedder import Model, OnError
from nonneg_client.sources.image_sources import ImageSources, Item, Source
from nonneg_client.wire import transport
from nonneg_client.wire.answer_limits import AsyncDeadline, Gathered
from nonneg_client.wire.batch_exchange import Reply, Send, batched, exchange, load, next_step
from nonneg_client.wire.client_settings import RateController, Tuning, settings
from nonneg_client.wire.protocol import PATH, Options
from nonneg_client.wire.transport import QUERY_PATH as QUERY
from nonneg_core.errors import NonnegError, ResponseInvalid
from nonneg_core.process.long_runs import bounded_map
from nonneg_core.terminal.progress import Progress
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.search.query_and_hits import Hits, Query
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.results import BatchResult

if TYPE_CHECKING:
    from nonneg_vectors.storage.embeddings import Embeddings


class AsyncClient:
    """A connection to an embedding server, for asyncio.

    async with AsyncClient() as client:
        embeddings = await client.embed("photos/", dimensions=256)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        **tuning: Unpack[Tuning],
    ) -> None:
        import httpx

        self.settings = settings(url, api_key, **tuning)
        self._errors = (httpx.HTTPError, httpx.InvalidURL, TimeoutError)
        self._http = httpx.AsyncClient(**transport.options_of(self.settings))
        self._reach = transport.ServerConnection(self.settings)

    async def embed(
        self,
        images: ImageSources | None = None,
        dimensions: int | None = None,
        top_k: int | None = None,
        *,
        texts: str | Iterable[str] | None = None,
        truncate: bool = False,
        normalize: bool = True,
        model: str | None = None,
        downscale: int | None = None,
        on_error: OnError = "raise",
        progress: Progress = None,
    ) -> Embeddings:
        """Embed one image or many; the arguments are those of `Embedder.embed`."""
        from nonneg_client.embedder import EmbedCall

        run = EmbedCall(images, texts, on_error, progress)
        options = Options(dimensions, top_k, normalize, model, truncate)
        parts = self.stream(run.images, options, downscale=downscale)
        async with aclosing(parts):
            with run.watch:
                async for part in parts:
                    run.add(part)
        return run.collected.embeddings()

    async def stream(
        self, images: Iterable[Item], options: Options, *, downscale: int | None = None
    ) -> AsyncGenerator[BatchResult, None]:
        """Yield the answers batch by batch, in order, with a bounded number of requests under way."""
        pace = RateController(self.settings.in_flight)
        options = replace(options, model=self.settings.pinned(options.model))
        places = asyncio.Semaphore(self.settings.in_flight)
        running: set[asyncio.Task[BatchResult]] = set()

        def submit(batch: list[Item]) -> asyncio.Task[BatchResult]:
            task = asyncio.create_task(self._one(batch, options, downscale, pace, places))
            running.add(task)
            task.add_done_callback(running.discard)
            return task

        answers = bounded_map(submit, batched(images, self.settings.batch_size), ahead=pace.ahead)
        try:
            for _, answer in answers:
                yield await answer
        finally:
            answers.close()
            await asyncio.gather(*running, return_exceptions=True)

    async def models(self) -> Any:
        """Return what the server serves, as GET /models tells it."""
        return await self._get("/models")

    async def model(self, name: str | None = None) -> Model:
        """Return the server's model of this name, without one its default model."""
        return Model.of(await self._get(transport.model_path(self.settings.pinned(name))))

    async def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Return what an expression stands for, as the server reads it; photos are read here and sent along."""
        read = parse(expression)
        content = await asyncio.to_thread(transport.request_of, read, dimensions, self.settings.pinned(model))
        return transport.query_of(await self._posted(QUERY, content), read)

    async def search(self, query: Source, k: int = 10, **options: Unpack[transport.Wanted]) -> Hits:
        """Return the nearest photos of the server's index to an image or an expression, as `Index.search` does."""
        content = await asyncio.to_thread(transport.search_of, query, k, options)
        return transport.hits_of(await self._posted(transport.SEARCH_PATH, content))

    async def dimensions(
        self, model: str | None = None, *, sort: str = "dimension", named: bool = False, contains: str | None = None
    ) -> list[dict[str, Any]]:
        """Return a served model's dimensions, as GET /models/{model}/dimensions tells them, all pages together."""
        name = self.settings.pinned(model) or (await self.model()).name
        pages = transport.list_dimensions(name, transport.dimension_parameters(sort, named, contains))
        try:
            path = next(pages)
            while True:
                path = pages.send(await self._get(path))
        except StopIteration as all_told:
            rows: list[dict[str, Any]] = all_told.value
            return rows

    async def bit_form(self, model: str | None = None) -> BitForm:
        """Return which columns of a served model have a bit, and how whole vectors ask vectors of bits."""
        return BitForm.of_dimensions(await self.dimensions(model))

    async def ready(self) -> bool:
        """Return whether the server would answer now."""
        try:
            return (await self._answer("GET", "/readyz")).status == 200
        except (*self._errors, ResponseInvalid):
            return False

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _one(
        self,
        batch: list[Item],
        options: Options,
        downscale: int | None,
        pace: RateController,
        places: asyncio.Semaphore,
    ) -> BatchResult:
        async with places:
            loaded = await asyncio.to_thread(load, batch, downscale)
            talk = exchange(batch, loaded, options, self._reach.attempts(), pace)
            step = next_step(talk)
            while not isinstance(step, BatchResult):
                reply = failed = None
                try:
                    if isinstance(step, Send):
                        reply = await self._send(step)
                    else:
                        await asyncio.sleep(step.seconds)
                except NonnegError as error:
                    failed = error
                step = next_step(talk, reply, failed)
            return step

    async def _get(self, path: str) -> Any:
        try:
            return transport.json_of(await self._answer("GET", path))
        except self._errors as error:
            raise transport.failure_of(error, self.settings) from error

    async def _posted(self, path: str, content: bytes) -> Any:
        try:
            return transport.json_of(await self._answer("POST", path, content=content, headers=transport.JSON))
        except self._errors as error:
            raise transport.failure_of(error, self.settings) from error

    async def _send(self, step: Send) -> Reply:
        try:
            reply = await self._answer("POST", PATH, **self._reach.request(step, closed=self._http.is_closed))
        except self._errors as error:
            raise self._reach.failure(error) from error
        return self._reach.reply(reply)

    async def _answer(self, method: str, path: str, **content: Any) -> Reply:
        """Ask, and return the answer: within the time, and no more bytes than the limit."""
        async with AsyncDeadline(self.settings.timeout) as clock:
            extensions = {"trace": clock}
            async with self._http.stream(method, path, extensions=extensions, **content) as response:
                body = Gathered()
                async for part in response.aiter_bytes():
                    body.add(part)
                return Reply(response.status_code, response.headers, bytes(body))
