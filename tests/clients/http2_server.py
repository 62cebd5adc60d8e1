"""A Chat Completions service that speaks HTTP/2 over TLS and nothing else, on 127.0.0.1.

Every answer calls the first tool that the request offers, streamed: a piece leaves only when the
client has confirmed by a PING that it read the one before. Needs the package h2.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, PingAckReceived, RequestReceived, StreamEnded

MODEL = "spoken-over-http2"
ARGUMENTS = {"report_sum": {"sum": 42}}


@dataclass
class Seen:
    """What came over one connection."""

    protocol: Optional[str]  # as ALPN agreed on
    requests: list[dict[str, Any]] = field(default_factory=list)  # bodies
    most_open: int = 0  # streams that waited for their answers at the same time


def chunk(delta: dict[str, Any], finish: Optional[str] = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def pieces_of_answer(request: dict[str, Any]) -> Iterator[bytes]:
    name = request["tools"][0]["function"]["name"]
    arguments = json.dumps(ARGUMENTS.get(name, {}))
    half = len(arguments) // 2
    yield chunk({"role": "assistant", "tool_calls": [{
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": name, "arguments": ""}}]})
    for part in (arguments[:half], arguments[half:]):
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls")
    usage = {"prompt_tokens": 20, "completion_tokens": 9}
    yield b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


class Connection:
    """One client's connection; everything happens on the server's loop."""

    def __init__(self, server: Http2Server, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.writer = writer
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.bodies: dict[int, bytes] = {}
        self.answers: dict[int, Iterator[bytes]] = {}  # by stream, what is still to be sent
        tls = writer.get_extra_info("ssl_object")
        self.seen = Seen(tls.selected_alpn_protocol())
        server.connections.append(self.seen)

    async def run(self, reader: asyncio.StreamReader) -> None:
        self.h2.initiate_connection()
        self.flush()
        while data := await reader.read(1 << 16):
            for event in self.h2.receive_data(data):
                self.on_event(event)
            self.server.answer_when_all_wait()
            self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def on_event(self, event: Any) -> None:
        if isinstance(event, RequestReceived):
            self.bodies[event.stream_id] = b""
            self.seen.most_open = max(self.seen.most_open, len(self.bodies))
        elif isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.seen.requests.append(json.loads(self.bodies[event.stream_id]))
            self.server.waiting.append((self, event.stream_id))
        elif isinstance(event, PingAckReceived):
            self.send_pieces()

    def begin(self, stream: int) -> None:
        request = json.loads(self.bodies.pop(stream))
        self.answers[stream] = pieces_of_answer(request)
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])

    def send_pieces(self) -> None:
        """The next piece of each answer; the PING's echo brings us back for the one after it."""
        for stream, pieces in list(self.answers.items()):
            piece = next(pieces, None)
            if piece is not None:
                self.h2.send_data(stream, piece)
                continue
            self.h2.end_stream(stream)
            del self.answers[stream]
        if self.answers:
            self.h2.ping(b"received")


class Http2Server:
    """Answers nobody before `together` requests wait. For use in a `with` statement."""

    def __init__(self, certificate: str, key: str, together: int = 1) -> None:
        self.connections: list[Seen] = []
        self.waiting: list[tuple[Connection, int]] = []
        self.together = together
        self.port = 0
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._tls.set_alpn_protocols(["h2"])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Http2Server:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Connection(self, writer).run(reader)
        except (ConnectionError, ssl.SSLError):
            pass  # the client has left
        finally:
            writer.close()

    def answer_when_all_wait(self) -> None:
        if len(self.waiting) < self.together:
            return
        begun = {connection for connection, _ in self.waiting}
        for connection, stream in self.waiting:
            connection.begin(stream)
        self.waiting.clear()
        for connection in begun:
            connection.send_pieces()
            connection.flush()
