"""The server as a forward proxy: for any request in absolute form, and for CONNECT."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from exchange import ClientGone, Exchange, scenario


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, OSError):
        pass
    finally:
        writer.close()


@scenario("proxy")
async def proxy(exchange: Exchange) -> None:
    """To locked.test: 407. To forbidden.test: 403. Else there."""
    request = exchange.request
    connect = request.method == "CONNECT"
    url = urlsplit("//" + request.target if connect else request.target)
    if url.hostname in ("locked.test", "forbidden.test"):
        locked = url.hostname == "locked.test"
        await exchange.reply(407 if locked else 403, b"",
                             [("Proxy-Authenticate", "Basic realm=\"test\"")] if locked else [])
        return
    exchange.close()
    assert url.hostname is not None
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    except OSError:
        await exchange.reply(502, b"")
        return
    if connect:
        await exchange.raw(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        kept = [f"{name}: {value}" for name, value in request.headers if name != "connection"]
        path = url.path + ("?" + url.query if url.query else "")
        lines = [f"{request.method} {path} HTTP/1.1", "X-Proxied: yes", "Connection: close", *kept]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.body)
    await asyncio.gather(pump(exchange.reader, writer), pump(reader, exchange.writer))
    raise ClientGone
