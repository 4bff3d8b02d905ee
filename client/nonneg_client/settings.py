"""Where the server is and how to talk to it: arguments first, then the environment, then defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypedDict, Unpack

from nonneg_core.errors import ConfigInvalid

URL, API_KEY = "NONNEG_URL", "NONNEG_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
LEAST = {"in_flight": 1, "batch_size": 1, "retries": 0, "retry_delay": 0, "overload_timeout": 0, "timeout": 0.001}


class Tuning(TypedDict, total=False):
    """How a client talks; every key may be left out."""

    timeout: float  # seconds for one answer: 60
    retries: int  # tries more after failures that may pass: 4
    retry_delay: float  # seconds before the first of them, doubled for each next one: 0.25
    overload_timeout: float  # seconds that one request may be refused for (429) before it fails: 120
    in_flight: int  # requests under way at once: 4
    batch_size: int  # images in a request: 16


@dataclass(frozen=True)
class ClientSettings:
    """What a client needs to know of its server; the rest is asked with each call."""

    url: str
    api_key: str | None
    timeout: float = 60.0
    retries: int = 4
    retry_delay: float = 0.25
    overload_timeout: float = 120.0
    in_flight: int = 4
    batch_size: int = 16  # few and larger requests: each costs the client half a millisecond

    def headers(self) -> dict[str, str]:
        from nonneg_core.version import __version__

        found = {"User-Agent": f"nonneg-python/{__version__}", "Accept": "application/json"}
        return found | {"Authorization": f"Bearer {self.api_key}"} if self.api_key else found


def settings(url: str | None, api_key: str | None, **tuning: Unpack[Tuning]) -> ClientSettings:
    """Return checked settings."""
    url = (url or os.environ.get(URL) or DEFAULT_URL).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigInvalid(
            f"{url} is not the address of a server", fix=f"give one like {DEFAULT_URL}", field="url", value=url
        )
    key = api_key or os.environ.get(API_KEY) or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigInvalid("the API key has characters that no header can carry", fix="check it for line ends")
    made = ClientSettings(url, key, **tuning)
    for name, least in LEAST.items():
        value = getattr(made, name)
        if value < least:
            raise ConfigInvalid(f"{name}={value} is less than {least}", fix=f"give {least} or more", field=name)
    return made
