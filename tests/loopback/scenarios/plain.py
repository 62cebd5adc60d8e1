"""Well-behaved answers."""

from __future__ import annotations

import asyncio
import gzip

from exchange import Exchange, scenario


@scenario("echo")
async def echo(exchange: Exchange) -> None:
    """/echo/...: the request as JSON."""
    request = exchange.request
    await exchange.json(200, {"method": request.method, "target": request.target,
                              "path": "/" + "/".join(request.path),
                              "headers": [list(pair) for pair in request.headers],
                              "body": request.body.decode("utf-8", "replace")})


@scenario("status")
async def status(exchange: Exchange) -> None:
    """/status/<code>: that status with a short JSON body."""
    code = int(exchange.request.argument(1, "200"))
    await exchange.json(code, {"status": code})


@scenario("count")
async def count(exchange: Exchange) -> None:
    """/count/<name>: how often this name was asked for, this time included."""
    name = "/".join(exchange.request.path)
    await exchange.json(200, {"count": exchange.world.hits[name]})


@scenario("early")
async def early(exchange: Exchange) -> None:
    """/early: two heads below 200, then the answer, with a folded header and a repeated one."""
    await exchange.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
    await exchange.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    await exchange.reply(200, b"final", [("X-Folded", "one\r\n two"), ("X-Two", "1"),
                                         ("X-Two", "2"), ("X-Empty", "")])


@scenario("gzip")
async def gzipped(exchange: Exchange) -> None:
    """/gzip[/<mb>]: compressed text; with a number, so many MB of zeros, which compress well."""
    megabytes = int(exchange.request.argument(1, "0"))
    text = bytes(megabytes << 20) if megabytes else b"squeezed " * 1000
    await exchange.reply(200, gzip.compress(text, 9),
                         [("Content-Encoding", "gzip"), ("Content-Type", "text/plain")])


@scenario("chunked")
async def chunked(exchange: Exchange) -> None:
    """/chunked/<n>: the request's body in chunks of n bytes, cut anywhere when sent, with a
    chunk extension and a trailer."""
    size = int(exchange.request.argument(1, "7"))
    body = exchange.request.body
    await exchange.begin()
    wire = b""
    for start in range(0, len(body), size):
        piece = body[start:start + size]
        wire += b"%x;ext=1\r\n%b\r\n" % (len(piece), piece)
    wire += b"0\r\nX-Trailer: after\r\n\r\n"
    for start in range(0, len(wire), 11):
        await exchange.raw(wire[start:start + 11])
        await asyncio.sleep(0)


@scenario("gate")
async def gate(exchange: Exchange) -> None:
    """/gate/<name>: "first", then, once /control/open/<name> was asked for, "second"."""
    name = exchange.request.argument(1, "")
    await exchange.begin()
    await exchange.chunk(b"first")
    await exchange.world.until(lambda: name in exchange.world.opened)
    await exchange.chunk(b"second")
    await exchange.finish()


@scenario("wire")
async def wire(exchange: Exchange) -> None:
    """/wire/<provider>/<case>/...[?cut=N]: a recorded answer, in pieces of N bytes."""
    request = exchange.request
    assert exchange.world.wire is not None, "the server was started without --wire"
    file = exchange.world.wire / request.argument(1, "") / request.argument(2, "") / "response.http"
    data = file.read_bytes()
    # The blank line, in either form, ends the head.
    ends = [(data.find(mark), len(mark)) for mark in (b"\r\n\r\n", b"\n\n") if mark in data]
    end, length = min(ends)
    first, *rest = data[:end].decode("latin-1").replace("\r\n", "\n").split("\n")
    body = data[end + length:]
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in rest)
               if name.lower() not in ("content-length", "transfer-encoding", "connection")]
    code = int(first.split(" ")[1])
    cut = int(request.query.get("cut", "0"))
    if cut == 0:
        await exchange.reply(code, body, headers)
        return
    await exchange.head(code, headers + [("Transfer-Encoding", "chunked")])
    for start in range(0, len(body), cut):
        await exchange.chunk(body[start:start + cut])
        await asyncio.sleep(0)
    await exchange.finish()
