"""Servers that keep the line open after their last word."""

from __future__ import annotations

from urllib.parse import unquote

from exchange import Exchange, scenario


@scenario("say")
async def say(exchange: Exchange) -> None:
    """/say/<text>: the text, percent-decoded, then silence on an open connection."""
    await exchange.begin(content_type="text/event-stream")
    await exchange.chunk(unquote(exchange.request.argument(1, "")).encode())
    await exchange.client_leaves()
