"""An HTTP server on 127.0.0.1 that misbehaves on demand, for tests of what calls models.

    python3 server.py [--wire DIR] [--tls CERT KEY] [--client-ca PEM]

Prints one line, {"port": n}, and ends when its standard input closes. /<scenario>/... chooses what
happens; the files in scenarios/ say what there is. Standard library only.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Optional

from exchange import SCENARIOS, ClientGone, Exchange, Request, World

MAX_HEAD = 1 << 20  # bytes


async def read_body(reader: asyncio.StreamReader, headers: list[tuple[str, str]]) -> bytes:
    fields = dict(headers)
    if fields.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            body += await reader.readexactly(size)
            await reader.readline()
            if size == 0:
                return body
    return await reader.readexactly(int(fields.get("content-length", "0")))


async def read_request(reader: asyncio.StreamReader) -> Optional[Request]:
    """The next request; None when the client has closed the connection. ValueError: not HTTP/1."""
    try:
        first = await reader.readexactly(1)
        if not first.isalpha():  # TLS, for one
            raise ValueError("not a method")
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        method, target, _ = lines[0].split(" ")
        pairs = [line.partition(":") for line in lines[1:] if line]
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
        return Request(method, target, headers, await read_body(reader, headers))
    except (asyncio.IncompleteReadError, ConnectionError, OSError):
        return None


async def answer(exchange: Exchange) -> None:
    request = exchange.request
    through = request.method == "CONNECT" or request.target.startswith("http://")
    name = "proxy" if through else request.argument(0, "")
    if name != "control":
        await exchange.world.note(exchange.world.hits, ["proxy"] if through else request.path)
    if name not in SCENARIOS:
        await exchange.json(404, {"error": f"there is no scenario {name!r}"})
        return
    try:
        await SCENARIOS[name](exchange)
    except ClientGone:
        exchange.close()
        await exchange.world.note(exchange.world.gone, request.path)


async def serve_connection(world: World, reader: asyncio.StreamReader,
                           writer: asyncio.StreamWriter) -> None:
    world.connections += 1
    try:
        while (request := await read_request(reader)) is not None:
            exchange = Exchange(world, request, reader, writer)
            await answer(exchange)
            if not exchange.keep:
                break
    except ValueError:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    finally:
        writer.close()


def tls_context(arguments: argparse.Namespace):  # -> Optional[ssl.SSLContext]
    if not arguments.tls:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*arguments.tls)
    if arguments.client_ca:
        context.load_verify_locations(arguments.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def main(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    # A client that resets or refuses the handshake is what tests are about.
    loop.set_exception_handler(lambda _, context: None if isinstance(
        context.get("exception"), OSError) else loop.default_exception_handler(context))
    world = World(Path(arguments.wire) if arguments.wire else None)
    for file in sorted((Path(__file__).parent / "scenarios").glob("*.py")):
        importlib.import_module(f"scenarios.{file.stem}")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_connection(world, reader, writer)
        except asyncio.CancelledError:
            pass  # the server ends; to pass it on would only be printed

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls_context(arguments),
                                        limit=MAX_HEAD, backlog=2048)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)

    done = asyncio.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    await done.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wire", metavar="DIR", help="folder of <provider>/<case>/response.http")
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"), help="PEM files: speak TLS")
    parser.add_argument("--client-ca", metavar="PEM", help="demand a client's certificate")
    asyncio.run(main(parser.parse_args()))
