"""Requests to switch the protocol: read again without `Upgrade`, and answered like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from httptools import HttpRequestParser


def parser_for(connection: asyncio.Protocol) -> HttpRequestParser:
    """Return a parser at its beginning, as uvicorn sets it up."""
    parser = HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def without_upgrade(method: str, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the head without its request to switch the protocol, which a server may ignore (RFC 9110, 7.8)."""
    lines = [b"%s %s HTTP/%s" % (method.encode(), url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            value = b", ".join(option for option in value.split(b",") if option.strip().lower() != b"upgrade")
        if name != b"upgrade":
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])
