"""What both clients make of httpx: where to send, what its failures mean, pages of dimensions, and POST /query."""

import base64
import json
import os
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict
from urllib.parse import quote, urlencode

import numpy as np

from nonneg_client.sources.image_sources import Item, Source, items
from nonneg_client.wire.answer_limits import MAX_DIMENSIONS, SENDING, dimensions_of, readable
from nonneg_client.wire.batch_exchange import Reply, Send
from nonneg_client.wire.client_settings import ClientSettings, RetryPolicy
from nonneg_client.wire.protocol import error_of
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, DeadlineExceeded, NonnegError
from nonneg_vectors.expressions.expression import Expression, Photo
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import Resolved, SparseRow, Unlike
from nonneg_vectors.search.query_and_hits import Hit, Hits, Query
from nonneg_vectors.search.vector_engine import Where

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
NotAnswered: TypeAlias = "httpx.HTTPError | httpx.InvalidURL | TimeoutError"


class ServerConnection:
    """What a client knows of its server: how to ask it, and whether it ever answered."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._answered = False

    def attempts(self) -> RetryPolicy:
        """Return how often one batch is asked for."""
        options = self.settings
        return RetryPolicy(options.retries, options.overload_timeout, options.retry_delay, self._answered)

    def request(self, step: Send, *, closed: bool) -> dict[str, Any]:
        """Return the arguments of a request to embed."""
        if closed:
            raise ConfigInvalid("this client is closed", fix="make another one")
        message = step.request
        return {"params": message.params, "headers": message.headers, "content": message.content}

    def reply(self, reply: Reply) -> Reply:
        """Return what came back, and remember that something did."""
        self._answered = True
        return reply

    def failure(self, error: NotAnswered) -> NonnegError:
        """Return our error for one of httpx's; one from a server that was reached shows that it is there."""
        failure = failure_of(error, self.settings)
        self._answered |= failure.field != "url"
        return failure


def model_path(name: str | None) -> str:
    """Return where a model is described; without a name all are, the default first."""
    return "/models" if name is None else f"/models/{quote(name, safe='')}"


def options_of(settings: ClientSettings) -> dict[str, Any]:
    """Return the arguments of httpx's client: room for every request under way, no waiting for a connection."""
    import httpx

    return {
        "base_url": settings.url,
        "headers": settings.headers(),
        "timeout": httpx.Timeout(
            settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout), write=SENDING * settings.timeout
        ),
        # Without TLS the certificates would be loaded for nothing: 50 ms of every start. Redirects are not followed.
        "verify": settings.url.startswith("https://"),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=settings.in_flight),
    }


def failure_of(error: NotAnswered, settings: ClientSettings) -> NonnegError:
    """Return our error for one of httpx's, or for the end of the time."""
    import httpx

    if isinstance(error, (httpx.TimeoutException, TimeoutError)) and not isinstance(error, httpx.ConnectTimeout):
        return DeadlineExceeded(
            f"no answer from {settings.url} within {settings.timeout:g} s",
            fix="give it more time (timeout=), or send smaller batches (batch_size=)",
            field="timeout",
            value=settings.timeout,
        )
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ConnectionFailed(
            f"{settings.url} shows a certificate that is not trusted here ({error})",
            fix="set SSL_CERT_FILE to it or to its authority's (PEM), and ask by a name that stands in it",
            field="url",
            value=settings.url,
        )
    reached = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    what = "broke the connection" if reached else "cannot be reached"
    return ConnectionFailed(
        f"{settings.url} {what} ({str(error) or type(error).__name__})",
        fix="look into the server's log"
        if reached
        else "start a server with `nonneg serve`, set NONNEG_URL, or give --bundle photo to go without one",
        field="connection" if reached else "url",
        value=settings.url,
    )


def json_of(reply: Reply) -> Any:
    """Return the content of an answer that is JSON, or the error it stands for."""
    if reply.status != 200:
        raise error_of(reply.status, reply.headers, reply.body)
    with readable("JSON"):
        return json.loads(reply.body)


# The list of a model's dimensions, page by page; nothing here waits.

PAGE = 1000  # dimensions of one request


def list_dimensions(model: str, filters: Mapping[str, str]) -> Generator[str, Any, list[dict[str, Any]]]:
    """Yield the path of each page of a model's dimensions, take its answer; all of them together are the result."""
    entries: list[dict[str, Any]] = []
    while True:
        query = urlencode({**filters, "offset": len(entries), "limit": PAGE})
        answer = yield f"{model_path(model)}/dimensions?{query}"
        with readable("a list of dimensions"):
            entries += answer["dimensions"]
            if not answer["dimensions"] or len(entries) >= min(answer["total"], MAX_DIMENSIONS):
                return entries


def dimension_parameters(sort: str, named: bool, contains: str | None) -> dict[str, str]:
    """Return what is asked of the list of dimensions, as a URL has it."""
    filters = {"sort": sort, "named": str(named).lower()}
    return filters if contains is None else {**filters, "contains": contains}


# POST /query as a client sends it: the expression with the bytes of its photos, and the query that comes back.

QUERY_PATH = "/query"
JSON = {"Content-Type": "application/json"}


def request_of(expression: Expression, dimensions: int | None, model: str | None) -> bytes:
    """Return the body of the request; photos are read here, as `embed` reads them."""
    images = {photo.name: _base64(_bytes(photo)) for photo in expression.photos()}
    fields = {"images": images, "dimensions": dimensions, "model": model}
    given = {name: value for name, value in fields.items() if value}
    return json.dumps({"expression": str(expression), **given}).encode()


# POST /search: what is looked for with its photos, and the hits that come back.

SEARCH_PATH = "/search"


class Wanted(TypedDict, total=False):
    """What a search may ask for besides what is looked for, as `Index.search` takes it."""

    where: Where | None
    without: Sequence[int]
    exclude: Sequence[str]
    exact: bool
    reasons: bool
    matches_only: bool


def search_of(query: Source, k: int, options: Wanted) -> bytes:
    """Return the body of the request: an image as it is, or an expression with its photos, which are read here."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(query, str) and not os.path.exists(query):  # noqa: PTH110  an expression may be too long for a path
        expression = parse(query)
        photos = {photo.name: _base64(_bytes(photo)) for photo in expression.photos()}
        return json.dumps({"expression": str(expression), "images": photos, "k": k, **given}).encode()
    return json.dumps({"images": [_base64(one_image(query).load())], "k": k, **given}).encode()


def one_image(query: Source) -> Item:
    """Return the image that a query is."""
    matches = list(items(query))
    if len(matches) != 1:
        raise DataInvalid(f"a search takes one image, not {len(matches)}", fix="name one photo, not a folder")
    return matches[0]


def hits_of(answer: Any) -> Hits:
    """Return the hits in the server's answer."""
    with readable("hits"):
        return Hits(map(_hit, answer["hits"]), exact=bool(answer["exact"]))


def _hit(hit: Any) -> Hit:
    reasons = tuple((int(reason["dimension"]), float(reason["part"])) for reason in hit["reasons"])
    names = {int(reason["dimension"]): str(reason["name"]) for reason in hit["reasons"] if reason["name"]}
    return Hit(str(hit["id"]), float(hit["score"]), dict(hit["payload"]), reasons, names, hit["match"])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def query_of(answer: Any, expression: Expression) -> Query:
    """Return the query in the server's answer."""
    with readable("a query"):
        dimensions = dimensions_of(answer)
        parts = tuple(_row(part, dimensions) for part in answer["parts"])
        without = tuple(int(unwanted["dimension"]) for unwanted in answer["without"])
        unlike = tuple(Unlike(_row(one, dimensions), float(one["line"])) for one in answer["unlike"])
        meaning, chance = Resolved(parts, without, unlike), float(answer["chance"])
        return Query(expression, meaning, dimensions, str(answer["fingerprint"]), chance)


def _bytes(photo: Photo) -> bytes:
    matches = list(items(photo.name))
    if len(matches) != 1:
        raise DataInvalid(
            f"{photo} stands for {len(matches)} images", fix="name one photo, not a folder or a pattern, at each place"
        )
    return matches[0].load()


def _row(part: Any, dimensions: int) -> SparseRow:
    indices, values = np.asarray(part["indices"], np.int32), np.asarray(part["values"], np.float32)
    if indices.shape != values.shape or indices.ndim != 1 or not len(indices) or not np.isfinite(values).all():
        raise ValueError("indices and finite values differ in length")
    if indices[0] < 0 or indices[-1] >= dimensions or (np.diff(indices) <= 0).any():
        raise ValueError(f"indices are not sorted, unique and below {dimensions}")
    return indices, values
