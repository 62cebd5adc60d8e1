"""Functions that the worker's tests call in a child: each does one thing, some of them evil."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from kernel_evolve_worker import WorkerError


def echo(request, context):
    return {"got": request, "pid": os.getpid()}


def tell_progress(request, context):
    context.progress("one", step=1)
    context.progress("two", step=2)
    return {}


def raise_planned(request, context):
    raise WorkerError(request["class"], request["message"])


def raise_unplanned(request, context):
    raise ValueError("first\nsecond   line")


def raise_odd(request, context):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    raise Odd


def exit_politely(request, context):
    sys.exit(0)


def exit_at_once(request, context):
    os._exit(0)


def crash(request, context):
    print("about to crash", flush=True)
    ctypes.string_at(8)


def loop(request, context):
    context.progress("looping")
    while True:
        pass


def ignore_signals_and_loop(request, context):
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    loop(request, context)


def return_kind(request, context):
    return {
        "list": [1],
        "none": None,
        "set": {"a": {1}},
        "key": {1: 2},
        "deep": _deep(5000),
        "numbers": {"nan": float("nan"), "inf": float("inf"), "big": 1 << 70, "max": 2**63 - 1},
        "text": {"lone": "a\ud800b", "line": "x\ny\u2028z", "nul": "\0"},
        "huge": {"text": "x" * (request.get("mib", 0) << 20)},
    }[request["kind"]]


def _deep(levels):
    value = {}
    for _ in range(levels):
        value = {"v": value}
    return value


def flood(request, context):
    """Prints `mib` MiB to both streams."""
    block = b"flood " * 10922 + b"end\n"
    for _ in range(request["mib"] * 8):
        os.write(1, block)
        os.write(2, block)
    return {"printed": True}


def flood_for_ever(request, context):
    while True:
        os.write(1, b"x" * 65536)


def fail_after_flood(request, context):
    flood(request, context)
    print("the last words")
    raise ValueError("after the flood")


def forge(request, context):
    """Prints what an answer looks like, and writes it to every descriptor it can guess."""
    line = json.dumps({"op": "result", "id": request["id"], "value": {"forged": True}}) + "\n"
    print(line, flush=True)
    sys.__stderr__.write(line)
    sys.__stderr__.flush()
    written = []
    if request["all"]:
        for fd in range(3, 1024):
            try:
                os.write(fd, line.encode())
                written.append(fd)
            except OSError:
                pass
    if request["exit"]:
        os._exit(0)
    return {"forged": False, "written": written}


def allocate(request, context):
    """Takes memory until it is refused."""
    blocks = []
    for _ in range(1 << 14):
        blocks.append(bytearray(16 << 20))
    return {"mib": len(blocks) * 16}


def allocate_tensor(request, context):
    import torch

    return {"sum": float(torch.ones(request["mib"] << 18).sum())}


def touch_memory(request, context):
    block = bytearray(request["mib"] << 20)
    for at in range(0, len(block), 4096):
        block[at] = 1
    return {}


def name_process(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def leave_processes(request, context):
    """Leaves children, grandchildren, a daemon that forked twice, and one that ignores signals."""
    mark = request["mark"]
    subprocess.Popen(["sh", "-c", f": {mark}; sleep 9999"])
    if os.fork() == 0:
        name_process(mark)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() != 0:
            os._exit(0)
        if os.fork() == 0:
            os.setpgid(0, 0)
        while True:
            time.sleep(9999)
    threading.Thread(target=time.sleep, args=(9999,)).start()
    context.progress("left")
    while request.get("stay"):
        time.sleep(9999)
    return {}


def fork_bomb(request, context):
    name_process(request["mark"])
    context.progress("forking")
    while True:
        try:
            os.fork()
        except OSError:
            pass


def write_files(request, context):
    """For each path: "written", or the name of the error."""
    outcome = {}
    for path in request["paths"]:
        try:
            Path(path).write_text("x")
            outcome[path] = "written"
        except OSError as error:
            outcome[path] = type(error).__name__
    (context.scratch / "mine").write_text("mine")
    return {"paths": outcome}


def read_files(request, context):
    outcome = {}
    for path in request["paths"]:
        try:
            outcome[path] = Path(path).read_bytes()[:100].decode("latin-1")
        except OSError as error:
            outcome[path] = type(error).__name__
    return {"paths": outcome}


def _attempt(action):
    try:
        action()
        return "done"
    except BaseException as error:
        return type(error).__name__


def _connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect(address)


def use_network(request, context):
    return {
        "tcp": _attempt(lambda: _connect(socket.AF_INET, ("127.0.0.1", request["port"]))),
        "tcp6": _attempt(lambda: _connect(socket.AF_INET6, ("::1", request["port"]))),
        "netlink": _attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
        "unix": _attempt(lambda: _connect(socket.AF_UNIX, request["unix"])),
        "pair": _attempt(socket.socketpair),
    }


_SYSTEM_CALLS = {
    "ptrace": (101, 0, 0, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0),
    "mount": (165, 0, 0, 0, 0),
    "umount": (166, 0, 0),
    "unshare": (272, 0x10000000),
    "setns": (308, 0, 0),
    "clone_new_user": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "keyctl": (250, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "userfaultfd": (323, 0),
    "init_module": (175, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "x32_getpid": (0x40000000 + 39,),
}


def forbidden_calls(request, context):
    """errno of each system call, 0 when it was done."""
    libc = ctypes.CDLL(None, use_errno=True)
    outcome = {}
    for name, arguments in _SYSTEM_CALLS.items():
        ctypes.set_errno(0)
        result = libc.syscall(*(ctypes.c_long(value) for value in arguments))
        if result == 0 and name == "clone_new_user":
            os._exit(0)
        outcome[name] = ctypes.get_errno() if result < 0 else 0
    return outcome


def look_around(request, context):
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return {
        "environment": dict(os.environ),
        "capabilities": fields["CapEff"].strip(),
        "bounding": fields["CapBnd"].strip(),
        "no_new_privileges": fields["NoNewPrivs"].strip(),
        "folder": os.getcwd(),
        "scratch": str(context.scratch),
        "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
        "core": __import__("resource").getrlimit(4)[0],
        "time_left": context.time_left(),
    }


def _attack(pid):
    return {
        "kill": _attempt(lambda: os.kill(pid, signal.SIGKILL)),
        "memory": _attempt(lambda: open(f"/proc/{pid}/mem", "rb").read(1)),
        "environment": _attempt(lambda: open(f"/proc/{pid}/environ", "rb").read()),
        "descriptors": _attempt(lambda: os.open(f"/proc/{pid}/fd/0", os.O_RDONLY)),
    }


def attack_processes(request, context):
    """Tries to see, signal and read the given processes of the outside."""
    outcome = {}
    for pid in request["pids"]:
        outcome[str(pid)] = _attack(pid)
    outcome["all"] = _attempt(lambda: os.kill(-1, 0))
    outcome["parent"] = _attempt(lambda: os.kill(os.getppid(), signal.SIGKILL))
    return outcome


def count(request, context):
    context.state["count"] = context.state.get("count", 0) + 1
    if request.get("die"):
        os._exit(1)
    while request.get("loop"):
        pass
    return {"count": context.state["count"], "pid": os.getpid(), "session": context.session}


def pollute(request, context):
    """Changes what a later call would see if it ran in the same process."""
    import builtins

    polluted = hasattr(builtins, "polluted")
    builtins.polluted = True
    return {"polluted": polluted}


def meet(request, context):
    """Says that it is here, and ends when as many others as asked are here too."""
    folder = Path(request["folder"])
    (folder / str(request["number"])).touch()
    while len(list(folder.iterdir())) < request["total"]:
        time.sleep(0.001)
    return {}


def multiply(request, context):
    import torch

    torch.set_num_threads(2)
    a = torch.randn(512, 512)
    return {"finite": bool((a @ a).isfinite().all()), "fork": torch.cuda._is_in_bad_fork()}


def compile_kernel(request, context):
    import probe_kernel
    import triton
    from triton.backends.compiler import GPUTarget

    source = triton.compiler.ASTSource(
        fn=probe_kernel.scale,
        signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(2,): 256},
    )
    begin = time.monotonic()
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return {
        "ptx": ".entry" in compiled.asm["ptx"],
        "cubin": len(compiled.asm["cubin"]),
        "seconds": time.monotonic() - begin,
    }
