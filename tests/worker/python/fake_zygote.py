"""Stands in for the zygote in tests of the host's side: it plays one part and imports nothing.

Arguments: the part, a folder for notes, then whatever the host adds.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def ready():
    say(op="ready", pid=os.getpid(), python="0", torch="0", triton="0", isolation="none")


def calls():
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "call":
            yield message


def answer(call):
    say(op="result", id=call["id"], value={"echo": call["request"]}, seconds=0.5, peak_kb=7,
        isolation={"level": "none"})  # fmt: skip


def echo():
    ready()
    for call in calls():
        answer(call)


def chatty():
    """A login banner before, and lines that are no messages between."""
    print("Welcome to node17\n{not json\n[1, 2]", flush=True)
    ready()
    for call in calls():
        print("stray\n\n\x00\xff", flush=True)
        say(op="unheard-of", id=call["id"])
        say(op="result", id=call["id"] + 1000, value={})
        say(op="progress", id=call["id"], data={"text": "half"})
        answer(call)
        answer(call)


def dies_once(notes):
    ready()
    for call in calls():
        if not (notes / "died").exists():
            (notes / "died").touch()
            print("first line\nthe disk is gone", file=sys.stderr, flush=True)
            os._exit(3)
        answer(call)


def killed():
    ready()
    for _call in calls():
        os.kill(os.getpid(), signal.SIGKILL)


def dies_early():
    print("ImportError: no luck", file=sys.stderr, flush=True)
    sys.exit(1)


def fatal():
    say(op="fatal", **{"class": "unavailable"}, message="PyTorch is not installed; type x")
    sys.exit(3)


def never_ready():
    time.sleep(3600)


def silent():
    ready()
    for _call in calls():
        pass


def deaf():
    """Comes up and never reads."""
    ready()
    time.sleep(3600)


def endless_line():
    ready()
    for _call in calls():
        while True:
            sys.stdout.write("x" * (1 << 20))


def odd_answers():
    ready()
    for call in calls():
        kind = call["request"]["kind"]
        if kind == "list":
            say(op="result", id=call["id"], value=[1])
        elif kind == "class":
            say(op="error", id=call["id"], message="m", **{"class": "no_such_class"})
        else:
            say(op="error", id=call["id"])


def stubborn():
    """Ignores the end of stdin and polite signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    for call in calls():
        answer(call)
    time.sleep(3600)


def environment():
    ready()
    for call in calls():
        say(op="result", id=call["id"], value={"environment": dict(os.environ), "argv": sys.argv})


def holding():
    """Says which folder it was given; a call that asks for it is held until the next one comes."""
    ready()
    held = []
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "cancel" and message["id"] in held:
            held.remove(message["id"])
            say(op="error", id=message["id"], message="by its caller", **{"class": "cancelled"})
        if message["op"] != "call":
            continue
        held.append(message["id"])
        if message["request"].get("hold"):
            say(op="progress", id=message["id"], data={"text": "held"})
            continue
        for done in held:
            say(op="result", id=done, value={"who": sys.argv[2]})
        held.clear()


part = sys.argv[1]
if part == "dies_once":
    dies_once(Path(sys.argv[2]))
else:
    globals()[part]()
