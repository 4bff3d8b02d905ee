"""The blocking client: images in, embeddings out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, Unpack

from nonneg_client.embedder import Embedder, Model
from nonneg_client.sources.image_sources import Item, Source
from nonneg_client.wire import transport
from nonneg_client.wire.answer_limits import Gathered, ReadDeadline, readable
from nonneg_client.wire.batch_exchange import Reply, Send, batched, exchange, load, next_step
from nonneg_client.wire.client_settings import RateController, Tuning, settings
from nonneg_client.wire.protocol import PATH, Options
from nonneg_client.wire.transport import QUERY_PATH as QUERY
from nonneg_core.errors import ConnectionFailed, NonnegError, ResponseInvalid
from nonneg_core.process.long_runs import bounded_map
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.search.query_and_hits import Hits, Query
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.results import BatchResult

T = TypeVar("T")
Jobs = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class Threads:
    """At most so many, each started when there is a job for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._jobs: Jobs = SimpleQueue()
        self._running: set[Future[Any]] = set()  # those that wait for a thread, too

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have it done; the future holds its result."""
        future: Future[T] = Future()
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        self._jobs.put((future, act))
        if self._started < self._most:
            threading.Thread(target=_work, args=(self._jobs,), daemon=True, name="nonneg").start()
            self._started += 1
        return future

    def close(self, seconds: float) -> None:
        """End each thread after its job, and wait so long for it; cancel jobs that have not begun before."""
        wait(list(self._running), timeout=seconds)
        for _ in range(self._started):
            self._jobs.put(None)


def _work(jobs: Jobs) -> None:
    while (job := jobs.get()) is not None:
        future, act = job
        if future.set_running_or_notify_cancel():
            try:
                result = act()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        del job, future, act  # images are not kept while the thread waits for the next


MOMENT = 0.5  # seconds


class Client(Embedder):
    """A connection to an embedding server.

    Safe to share between threads. Address and key come from the arguments, else from NONNEG_URL and NONNEG_API_KEY.

        with Client() as client:
            embeddings = client.embed("photos/", dimensions=256)
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
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._http = httpx.Client(**transport.options_of(self.settings))
        self._deadline = ReadDeadline(self.settings.timeout)
        self._reach = transport.ServerConnection(self.settings)

    def stream(
        self, images: Iterable[Item], options: Options, *, downscale: int | None = None
    ) -> Generator[BatchResult, None, None]:
        """Yield the answers batch by batch, in order, with a bounded number of requests under way."""
        pace = RateController(self.settings.in_flight)
        options = replace(options, model=self.settings.pinned(options.model))
        stop = threading.Event()
        threads = Threads(self.settings.in_flight)

        def submit(batch: list[Item]) -> Future[BatchResult]:
            return threads.submit(partial(self._one, batch, options, downscale, pace, stop))

        answers = bounded_map(submit, batched(images, self.settings.batch_size), ahead=pace.ahead)
        try:
            for _, answer in answers:
                yield answer.result()
        finally:  # left early: what waits is dropped, what is under way has a moment to end
            stop.set()
            answers.close()
            threads.close(MOMENT)

    def models(self) -> Any:
        """Return what the server serves, as GET /models tells it."""
        return self._get("/models")

    def model(self, name: str | None = None) -> Model:
        """Return the server's model of this name, without one its default model."""
        return Model.of(self._get(transport.model_path(self.settings.pinned(name))))

    def served(self) -> list[Model]:
        """Return the models that the server serves, the default one first."""
        with readable("a list of models"):
            return [Model.of(entry) for entry in self.models()["models"]]

    def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Return what an expression stands for, as the server reads it; photos are read here and sent along."""
        read = parse(expression)
        content = transport.request_of(read, dimensions, self.settings.pinned(model))
        return transport.query_of(self._posted(QUERY, content), read)

    def search(self, query: Source, k: int = 10, **options: Unpack[transport.Wanted]) -> Hits:
        """Return the nearest photos of the server's index to an image or an expression, as `Index.search` does."""
        return transport.hits_of(self._posted(transport.SEARCH_PATH, transport.search_of(query, k, options)))

    def dimensions(
        self, model: str | None = None, *, sort: str = "dimension", named: bool = False, contains: str | None = None
    ) -> list[dict[str, Any]]:
        """Return a served model's dimensions, as GET /models/{model}/dimensions tells them, all pages together."""
        pages = transport.list_dimensions(
            self.settings.pinned(model) or self.model().name, transport.dimension_parameters(sort, named, contains)
        )
        try:
            path = next(pages)
            while True:
                path = pages.send(self._get(path))
        except StopIteration as all_told:
            rows: list[dict[str, Any]] = all_told.value
            return rows

    def bit_form(self, model: str | None = None) -> BitForm:
        """Return which columns of a served model have a bit, and how whole vectors ask vectors of bits."""
        return BitForm.of_dimensions(self.dimensions(model))

    def ready(self) -> bool:
        """Return whether the server would answer now."""
        try:
            return self._answer("GET", "/readyz").status == 200
        except (*self._errors, ResponseInvalid):
            return False

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _one(
        self, batch: list[Item], options: Options, downscale: int | None, pace: RateController, stop: threading.Event
    ) -> BatchResult:
        talk = exchange(batch, load(batch, downscale), options, self._reach.attempts(), pace)
        step = next_step(talk)
        while not isinstance(step, BatchResult):
            reply = failed = None
            try:
                if isinstance(step, Send):
                    reply = self._send(step)
                elif stop.wait(step.seconds):
                    raise ConnectionFailed("the call was cancelled while it waited for the server", fix="call again")
            except NonnegError as error:
                failed = error
            step = next_step(talk, reply, failed)
        return step

    def _send(self, step: Send) -> Reply:
        try:
            reply = self._answer("POST", PATH, **self._reach.request(step, closed=self._http.is_closed))
        except self._errors as error:
            raise self._reach.failure(error) from error
        return self._reach.reply(reply)

    def _posted(self, path: str, content: bytes) -> Any:
        try:
            return transport.json_of(self._answer("POST", path, content=content, headers=transport.JSON))
        except self._errors as error:
            raise transport.failure_of(error, self.settings) from error

    def _get(self, path: str) -> Any:
        try:
            return transport.json_of(self._answer("GET", path))
        except self._errors as error:
            raise transport.failure_of(error, self.settings) from error

    def _answer(self, method: str, path: str, **content: Any) -> Reply:
        """Ask, and return the answer: within the time, and no more bytes than the limit."""
        with self._http.stream(method, path, extensions={"trace": self._deadline}, **content) as response:
            body = Gathered()
            for part in response.iter_bytes():
                body.add(part)
            return Reply(response.status_code, response.headers, bytes(body))
