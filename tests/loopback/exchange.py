"""What a scenario works with: the request, the connection to answer on, and the registry.

HTTP/1.1 is written by hand, so that a scenario can send any fault.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Awaitable, Callable, Optional
from urllib.parse import parse_qsl

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
           503: "Service Unavailable"}


class ClientGone(Exception):
    """The client closed or reset the connection while a scenario was at work."""


@dataclass
class Request:
    method: str
    target: str  # as sent
    headers: list[tuple[str, str]]  # names in lower case, in order
    body: bytes
    path: list[str] = field(default_factory=list)  # "/a/b?c=d" -> ["a", "b"]
    query: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path, _, query = self.target.partition("?")
        self.path = [part for part in path.split("/") if part]
        self.query = dict(parse_qsl(query, keep_blank_values=True))

    def header(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.headers if key == name), default)

    def argument(self, place: int, default: str) -> str:
        """The part of the path `place` steps after the scenario's name."""
        return self.path[place] if place < len(self.path) else default


class World:
    """What the server remembers between requests. Every change wakes whoever waits for one."""

    def __init__(self, wire: Optional[Path]) -> None:
        self.wire = wire
        self.hits: Counter[str] = Counter()  # by every prefix of the path: "a", "a/b", "a/b/c"
        self.gone: Counter[str] = Counter()  # clients that left an unfinished answer, likewise
        self.connections = 0  # accepted so far
        self.opened: set[str] = set()  # gates
        self.changed = asyncio.Condition()

    async def note(self, counter: Counter[str], path: list[str]) -> None:
        async with self.changed:
            for end in range(1, len(path) + 1):
                counter["/".join(path[:end])] += 1
            self.changed.notify_all()

    async def open(self, gate: str) -> None:
        async with self.changed:
            self.opened.add(gate)
            self.changed.notify_all()

    async def until(self, predicate: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(predicate)


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, world: World, request: Request, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self.world = world
        self.request = request
        self.reader = reader
        self.writer = writer
        self.keep = request.header("connection").lower() != "close"  # open for another request

    async def raw(self, data: bytes) -> None:
        if self.writer.is_closing():
            raise ClientGone
        try:
            self.writer.write(data)
            await self.writer.drain()
        except (ConnectionError, OSError) as error:
            raise ClientGone from error

    async def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        await self.raw(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def reply(self, status: int, body: bytes,
                    headers: Optional[list[tuple[str, str]]] = None) -> None:
        """A whole answer."""
        given = list(headers or [])
        if not any(name.lower() == "content-type" for name, _ in given):
            given.append(("Content-Type", "application/json"))
        await self.head(status, given + [("Content-Length", str(len(body)))])
        if self.request.method != "HEAD":
            await self.raw(body)

    async def json(self, status: int, value: object,
                   headers: Optional[list[tuple[str, str]]] = None) -> None:
        await self.reply(status, json.dumps(value).encode(), headers)

    async def begin(self, status: int = 200, content_type: str = "text/plain") -> None:
        """Begins a chunked answer; chunk() any number of times, then finish()."""
        await self.head(status, [("Content-Type", content_type), ("Transfer-Encoding", "chunked")])

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def finish(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def client_leaves(self) -> None:
        """Waits until the client closes the connection; never returns."""
        try:
            while await self.reader.read(65536):
                pass
        except (ConnectionError, OSError):
            pass
        raise ClientGone

    def close(self) -> None:
        self.keep = False

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.keep = False
        plain = self.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Scenario = Callable[[Exchange], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Registers a scenario: it answers what is asked below /<name>."""

    def register(function: Scenario) -> Scenario:
        assert name not in SCENARIOS, f"two scenarios are called {name}"
        SCENARIOS[name] = function
        return function

    return register
