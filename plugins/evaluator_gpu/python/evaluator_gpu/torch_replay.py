"""A replay as ke_replay is one, for tapes with operators of PyTorch between their launches.

usage: torch_replay.py PATHS SHARED_FD SHARED_BYTES DEVICE

Speaks the protocol of REPLAY.md. PATHS: where evaluator_gpu and kernel_evolve_worker lie.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

_USAGE, _NO_DEVICE, _FAULT = 2, 3, 4  # exit codes, as of ke_replay


def main() -> int:
    if len(sys.argv) != 5:
        print("usage: torch_replay.py PATHS SHARED_FD SHARED_BYTES DEVICE", file=sys.stderr)
        return _USAGE
    sys.path[:0] = sys.argv[1].split(os.pathsep)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    # The protocol's stdout is kept from whatever PyTorch or a kernel prints.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        import torch

        torch.cuda.set_device(int(sys.argv[4]))
        from evaluator_gpu.torch_player import Player, failure

        player = Player(int(sys.argv[2]), int(sys.argv[3]))
        say({"ok": True, **player.describe()})
    except Exception as error:  # noqa: BLE001 - the other side tells the user
        say({"ok": False, "kind": "device", "message": f"{type(error).__name__}: {error}"[:300]})
        return _NO_DEVICE
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"ok": True, **getattr(player, f"do_{request.pop('op')}")(**request)})
        except Exception as error:  # noqa: BLE001 - a fault is an answer
            answer, lasting = failure(error, player.step)
            say(answer)
            if lasting:
                os._exit(_FAULT)
    os._exit(0)


def _end_with_stdin() -> None:
    """Ends the process when whoever started it has gone, whatever a kernel does."""
    import select

    poll = select.poll()
    poll.register(0, 0)  # no event asked for: only the hang-up is told
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
