"""What a test asks about the others. What waits, waits for the event, not for time to pass."""

from __future__ import annotations

from exchange import Exchange, scenario


@scenario("control")
async def control(exchange: Exchange) -> None:
    """/control/count/<path>      how often a path, or anything below it, was asked for
    /control/hit/<n>/<path>    answers when it was asked for n times
    /control/gone/<n>/<path>   answers when n clients have left an unfinished answer of it
    /control/open/<gate>       lets /gate/<gate> go on
    /control/connections       how many connections were accepted, this one included
    """
    world = exchange.world
    _, verb, *rest = exchange.request.path
    if verb == "count":
        await exchange.json(200, {"count": world.hits["/".join(rest)]})
    elif verb in ("hit", "gone"):
        counter = world.hits if verb == "hit" else world.gone
        number, path = int(rest[0]), "/".join(rest[1:])
        await world.until(lambda: counter[path] >= number)
        await exchange.json(200, {"count": counter[path]})
    elif verb == "open":
        await world.open(rest[0])
        await exchange.json(200, {})
    elif verb == "connections":
        await exchange.json(200, {"connections": world.connections})
    else:
        await exchange.json(404, {"error": f"there is no /control/{verb}"})
