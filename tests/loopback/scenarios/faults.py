"""Everything that goes wrong between a request and the end of its answer."""

from __future__ import annotations

import asyncio

from exchange import Exchange, scenario


@scenario("silent")
async def silent(exchange: Exchange) -> None:
    """/silent: takes the request, never answers."""
    await exchange.client_leaves()


@scenario("stall")
async def stall(exchange: Exchange) -> None:
    """/stall: the head and the first bytes, then silence."""
    await exchange.begin()
    await exchange.chunk(b"and then")
    await exchange.client_leaves()


@scenario("endless")
async def endless(exchange: Exchange) -> None:
    """/endless[/<ms>]: a stream that never ends, a piece every so many milliseconds."""
    pause = int(exchange.request.argument(1, "0")) / 1000
    await exchange.begin(content_type="text/event-stream")
    while True:
        await exchange.chunk(b"data: more\n\n" * (100 if pause == 0 else 1))
        await asyncio.sleep(pause)


@scenario("slow")
async def slow(exchange: Exchange) -> None:
    """/slow/<ms>: answers after so many milliseconds."""
    await asyncio.sleep(int(exchange.request.argument(1, "100")) / 1000)
    await exchange.json(200, {"slow": True})


@scenario("big")
async def big(exchange: Exchange) -> None:
    """/big/<mb>[?chunked=1]: so many MB, announced by Content-Length unless chunked."""
    megabytes = int(exchange.request.argument(1, "1"))
    chunked = "chunked" in exchange.request.query
    length = ("Transfer-Encoding", "chunked") if chunked else (
        "Content-Length", str(megabytes << 20))
    await exchange.head(200, [("Content-Type", "text/plain"), length])
    block = b"x" * (1 << 16)
    for _ in range(megabytes << 4):
        await (exchange.chunk(block) if chunked else exchange.raw(block))
    if chunked:
        await exchange.finish()


@scenario("headers")
async def headers(exchange: Exchange) -> None:
    """/headers: a head that never ends."""
    await exchange.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.raw(b"X-More: " + b"y" * 1000 + b"\r\n")


@scenario("redirect")
async def redirect(exchange: Exchange) -> None:
    """/redirect/<code>?to=URL: there; without `to`, to /count/redirected of this server."""
    code = int(exchange.request.argument(1, "307"))
    target = exchange.request.query.get("to", "/count/redirected")
    await exchange.reply(code, b'{"moved": true}', [("Location", target)])


@scenario("cut")
async def cut(exchange: Exchange) -> None:
    """/cut[?chunked=1]: closes inside the body."""
    if "chunked" in exchange.request.query:
        await exchange.begin()
        await exchange.chunk(b"x" * 100)
    else:
        await exchange.head(200, [("Content-Length", "1000")])
        await exchange.raw(b"x" * 100)
    exchange.close()


@scenario("hangup")
async def hangup(exchange: Exchange) -> None:
    """/hangup: closes without a word."""
    exchange.close()


@scenario("reset")
async def reset(exchange: Exchange) -> None:
    """/reset[/body]: resets the connection, before the answer or inside its body."""
    if exchange.request.argument(1, "") == "body":
        await exchange.begin()
        await exchange.chunk(b"x" * 100)
        # Not before the client has got it: a reset throws away what is under way.
        await exchange.world.until(lambda: "reset" in exchange.world.opened)
    exchange.reset()


@scenario("garbage")
async def garbage(exchange: Exchange) -> None:
    """/garbage: an answer that is not HTTP."""
    await exchange.raw(b"SSH-2.0-OpenSSH_9.2\r\n\x00\x01\x02\xff\r\n\r\n")
    exchange.close()


@scenario("badgzip")
async def badgzip(exchange: Exchange) -> None:
    """/badgzip: says gzip, is none."""
    await exchange.reply(200, b"this was never squeezed", [("Content-Encoding", "gzip")])


@scenario("storm")
async def storm(exchange: Exchange) -> None:
    """/storm/<n>/<code>/<name>[?retry-after=S&retry-after-ms=MS]: n failures, then success."""
    request = exchange.request
    failures, code = int(request.argument(1, "1")), int(request.argument(2, "429"))
    hits = exchange.world.hits["/".join(request.path)]
    if hits > failures:
        await exchange.json(200, {"ok": True, "hits": hits})
        return
    given = [(name, request.query[name]) for name in ("retry-after", "retry-after-ms")
             if name in request.query]
    await exchange.json(code, {"error": {"message": f"failure {hits} of {failures}"}}, given)
