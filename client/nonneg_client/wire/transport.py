"""What both clients make of httpx: where to send, what its failures mean to us, and the answers besides vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nonneg_client.wire.batch_exchange import Reply, Send
from nonneg_client.wire.protocol import PATH, error_of
from nonneg_client.wire.retries_and_rate import RetryPolicy
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DeadlineExceeded, NonnegError, ResponseInvalid

if TYPE_CHECKING:
    import httpx

    from nonneg_client.settings import ClientSettings

CONNECT_SECONDS = 5.0


class Reach:
    """What a client knows of its server: how to ask it, and whether it ever answered."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._answered = False

    def attempts(self) -> RetryPolicy:
        """Return how often one batch is asked for."""
        asked = self.settings
        return RetryPolicy(asked.retries, asked.overload_timeout, asked.retry_delay, self._answered)

    def request(self, step: Send, *, closed: bool) -> dict[str, Any]:
        """Return the arguments of httpx's `post`."""
        if closed:
            raise ConfigInvalid("this client is closed", fix="make another one")
        asked = step.request
        return {"url": PATH, "params": asked.params, "headers": asked.headers, "content": asked.content}

    def reply(self, response: httpx.Response) -> Reply:
        """Return what came back."""
        self._answered = True
        return Reply(response.status_code, response.headers, response.content)

    def failure(self, error: httpx.HTTPError | httpx.InvalidURL) -> NonnegError:
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
        "timeout": httpx.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout)),
        # Without TLS the certificates would be loaded for nothing: 50 ms of every start. Redirects are not followed.
        "verify": settings.url.startswith("https://"),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=settings.in_flight),
    }


def failure_of(error: httpx.HTTPError | httpx.InvalidURL, settings: ClientSettings) -> NonnegError:
    """Return our error for one of httpx's."""
    import httpx

    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return DeadlineExceeded(
            f"no answer from {settings.url} within {settings.timeout:g} s",
            fix="give it more time (timeout=), or send smaller batches (batch_size=)",
            field="timeout",
            value=settings.timeout,
        )
    reached = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    what = "broke the connection" if reached else "cannot be reached"
    return ConnectionFailed(
        f"{settings.url} {what} ({str(error) or type(error).__name__})",
        fix="look into the server's log" if reached else "start a server with `nonneg serve`, or set NONNEG_URL",
        field="connection" if reached else "url",
        value=settings.url,
    )


def json_of(response: httpx.Response) -> Any:
    """Return the content of an answer that is JSON, or the error it stands for."""
    if response.status_code != 200:
        raise error_of(response.status_code, response.headers, response.content)
    try:
        return json.loads(response.content)
    except ValueError as error:
        raise ResponseInvalid(
            f"{response.url} answered something that is not JSON", fix="check what answers at this address"
        ) from error
