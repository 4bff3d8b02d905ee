"""Images by URL, where the operator allows hosts: the address is resolved once, checked, and then connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from nonneg_core.errors import ImageTooLarge, LinkFailed, NonnegError, Overloaded, ParameterInvalid
from nonneg_core.version import __version__
from nonneg_server.http.connection_limits import ConnectionState, FetchedBytes
from nonneg_server.requests.inputs import Link, ReadyImage

if TYPE_CHECKING:
    import httpx

PORTS = {"http": 80, "https": 443}
LOOKUPS = ThreadPoolExecutor(16, "names")  # threads of their own: a slow name server keeps nothing else waiting

# IANA's special-purpose blocks (RFC 6890 and its successors). The list is our own, so that what may be reached does not
# change with the version of Python. Blocks that IANA calls globally reachable are not in it, but those that lead to
# another address: 6to4 relays (192.88.99.0/24), Teredo and 6to4 (2001::/32, 2002::/16).
SPECIAL_IPV4 = [
    ipaddress.IPv4Network(net)
    for net in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
UNICAST_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that has been given out; the rest is local, mapped or unused
SPECIAL_IPV6 = [ipaddress.IPv6Network(net) for net in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]


def routable(address: str) -> bool:
    """Return whether an address belongs to the public internet, and does not hide another one inside it."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return routable(str(ip.ipv4_mapped))
        return ip in UNICAST_IPV6 and not any(ip in net for net in SPECIAL_IPV6)
    return not any(ip in net for net in SPECIAL_IPV4)


async def addresses(host: str, port: int) -> list[str]:
    """Return what the system's resolver says; nothing for a name it does not know."""
    try:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        entries = await asyncio.get_running_loop().run_in_executor(LOOKUPS, look_up)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in entries]


def matches(allowed: str, host: str, port: int) -> bool:
    """Match `example.org`, `*.example.org` or `*` on the usual ports; `example.org:8080` on that one."""
    name, _, allowed_port = allowed.partition(":")
    if str(port) != allowed_port and not (not allowed_port and port in PORTS.values()):
        return False
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))


# Checking a name and connecting to it later would let its owner answer differently the second time. Nothing of this
# process goes along: no cookies, no credentials, no proxies from the environment.

logger = logging.getLogger("nonneg")
Resolve = Callable[[str, int], Awaitable[list[str]]]

REDIRECTS = 3
AT_ONCE = 16  # links of all requests,
OF_ONE_REQUEST = 4  # of them: one with many slow links leaves places for others
_SENT = {"user-agent": f"nonneg/{__version__}", "accept": "image/*", "accept-encoding": "identity"}
_MOVED = (301, 302, 303, 307, 308)


class Share:
    """What the links of one request may take: so many places at once, and so many bytes in all."""

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self.bytes = 0
        self.places = asyncio.Semaphore(OF_ONE_REQUEST)


class Fetcher:
    """Fetches from the hosts it was given; with none, every URL is refused."""

    def __init__(
        self,
        hosts: Sequence[str] = (),
        *,
        max_bytes: int = 20 * 2**20,
        timeout: float = 10.0,
        resolve: Resolve | None = None,
        permitted: Callable[[str], bool] | None = None,
        shared: ConnectionState | None = None,
    ) -> None:
        self._hosts = tuple(host.lower() for host in hosts)
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._resolve = resolve or addresses
        self._permitted = permitted or routable
        self._places = asyncio.Semaphore(AT_ONCE)
        self._held = FetchedBytes(shared or ConnectionState())
        self._tls = ssl.create_default_context() if hosts else None

    @asynccontextmanager
    async def fetched(self, images: Sequence[Link | ReadyImage], *, budget: int) -> AsyncIterator[list[ReadyImage]]:
        """Replace every link by its bytes or by the reason why there are none; `budget` bytes in all.

        The bytes count among those that the process holds until the context ends; Overloaded where they are too many.
        """
        share = Share(budget)
        try:
            yield await self._all(images, share)
        finally:
            self._held.give_back(share.bytes)

    async def _all(self, images: Sequence[Link | ReadyImage], share: Share) -> list[ReadyImage]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(image, share)) for image in images]
        except ExceptionGroup as several:  # a link brought more than may be held: the others were ended
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, image: Link | ReadyImage, share: Share) -> ReadyImage:
        if not isinstance(image, Link):
            return image
        import httpx  # here and below: most servers fetch nothing, and would start a tenth later

        try:
            async with share.places, self._places, asyncio.timeout(self._timeout):
                return await self._follow(image, share)
        except TimeoutError:
            return self._failed(image, f"did not arrive within {self._timeout:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # the last: a redirect to no name
            return self._failed(image, _why(error))
        except Overloaded:
            raise
        except NonnegError as error:
            return error
        except Exception:  # one link must not fail the whole request, whatever a server answers to it
            logger.exception("%s could not be fetched", image.field)
            return self._failed(image, "cannot be fetched")

    async def _follow(self, link: Link, share: Share) -> bytes:
        url = _parsed(link.url, link.field)
        for _ in range(REDIRECTS + 1):
            answer = await self._get(url, link, share)
            if isinstance(answer, bytes):
                return answer
            if url.scheme == "https" and answer.scheme == "http":
                raise self._failed(link, "redirects from https to http")
            url = answer
        raise self._failed(link, f"redirects more than {REDIRECTS} times")

    async def _get(self, url: httpx.URL, link: Link, share: Share) -> bytes | httpx.URL:
        """Return the body, or where it has moved to; every hop passes the same checks."""
        import httpx

        address = await self._pinned(url, link)
        target = url.copy_with(host=address)
        headers = {**_SENT, "host": url.netloc.decode("ascii")}
        async with (
            httpx.AsyncClient(trust_env=False, verify=self._tls or True, timeout=self._timeout) as client,
            client.stream("GET", target, headers=headers, extensions={"sni_hostname": url.raw_host.decode()}) as answer,
        ):
            if answer.status_code in _MOVED and "location" in answer.headers:
                return _parsed(str(url.join(answer.headers["location"])), link.field)
            if answer.status_code != 200:
                raise self._failed(link, f"answers {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise self._failed(link, "is compressed although that was not asked for")
            return await self._read(answer, link, share)

    async def _read(self, answer: httpx.Response, link: Link, share: Share) -> bytes:
        announced = answer.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 19:  # what comes is counted below
            self._within(int(announced), self._max_bytes, "--url-bytes", link)
        chunks: list[bytes] = []
        received = 0
        async for chunk in answer.aiter_raw():
            received += len(chunk)
            share.bytes += len(chunk)
            self._held.take(len(chunk))
            self._within(received, self._max_bytes, "--url-bytes", link)
            self._within(share.bytes, share.whole, "--max-body", link)
            chunks.append(chunk)
        return b"".join(chunks)

    def _within(self, size: int, limit: int, setting: str, link: Link) -> None:
        if size > limit:
            raise ImageTooLarge(
                f"what {link.field} links to has {size} bytes or more, the limit is {limit}",
                fix=f"link smaller images, or raise {setting}",
                field=link.field,
                value=size,
                limit=limit,
            )

    async def _pinned(self, url: httpx.URL, link: Link) -> str:
        """Return the one address that will be connected to."""
        host, port = url.host.lower(), url.port or PORTS[url.scheme]
        if not self._hosts:
            raise ParameterInvalid(
                f"{link.field} is a URL and this server fetches none",
                fix="send the image itself in base64, or start the server with --url-host",
                field=link.field,
                value=link.url[:200],
            )
        if not any(matches(allowed, host, port) for allowed in self._hosts):
            raise ParameterInvalid(
                f"{link.field}: {host}:{port} is not among the hosts this server fetches from",
                fix="send the image itself in base64, or add the host to --url-host",
                field=link.field,
                value=link.url[:200],
            )
        ips = await self._resolve(host, port)
        if not ips:
            raise self._failed(link, "has a host that does not resolve")
        if not all(map(self._permitted, ips)):
            raise self._failed(link, "leads to an address that is not public")
        return ips[0]

    def _failed(self, link: Link, why: str) -> LinkFailed:
        return LinkFailed(
            f"{link.field} {why}",
            fix="check the URL, or send the image itself in base64",
            field=link.field,
            value=link.url[:200],
        )


def _why(error: Exception) -> str:
    """Return what became of a link, in words of ours."""
    import httpx

    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "has a certificate that is not to be trusted"
    if isinstance(error, httpx.ConnectError):
        return "cannot be fetched: no connection to its host comes about"
    if isinstance(error, httpx.NetworkError):
        return "cannot be fetched: its host broke the connection off"
    if isinstance(error, httpx.ProtocolError):
        return "cannot be fetched: its host does not answer in HTTP"
    return "cannot be fetched"


def _parsed(text: str, field: str) -> httpx.URL:
    import httpx

    try:
        url = httpx.URL(text)
        host = url.host  # decoded here, and refused here if it cannot be: the name may be anything
    except (httpx.InvalidURL, TypeError, ValueError):
        raise ParameterInvalid(
            f"{field} is not a URL", fix="check its host, its port and its length", field=field, value=text[:200]
        ) from None
    if url.scheme not in PORTS or not host or url.userinfo:
        raise ParameterInvalid(
            f"{field} is not a plain http(s) URL",
            fix="use http or https, name a host, leave out user and password",
            field=field,
            value=url.copy_with(username=None, password=None).scheme if url.userinfo else text[:200],
        )
    return url
