"""Which hosts and addresses images may be fetched from: none that is not public, whatever name it goes by."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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
        found = await asyncio.get_running_loop().run_in_executor(LOOKUPS, look_up)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def matches(allowed: str, host: str, port: int) -> bool:
    """Match `example.org`, `*.example.org` or `*` on the usual ports; `example.org:8080` on that one."""
    name, _, wanted = allowed.partition(":")
    if str(port) != wanted and not (not wanted and port in PORTS.values()):
        return False
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))
