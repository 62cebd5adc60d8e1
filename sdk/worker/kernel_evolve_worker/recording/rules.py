"""The tables of the policy: what a candidate may import, reach, call and define."""

from __future__ import annotations

# Modules that may be imported, with everything below them unless DENIED says otherwise.
ALLOWED_MODULES = frozenset({
    "__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "functools",
    "itertools", "math", "numbers", "torch", "triton", "typing", "typing_extensions", "warnings",
})  # fmt: skip

# Parts of PyTorch and Triton that load code, reach the disk, change global state, or take the
# clock, the compiler or the driver into the candidate's hands.
DENIED = {
    "torch.load": "reads files",
    "torch.save": "writes files",
    "torch.ops": "calls operators by name",
    "torch.classes": "loads code",
    "torch.hub": "downloads code",
    "torch.jit": "compiles Python by other means",
    "torch.compile": "is the baseline, not a kernel",
    "torch.library": "registers operators",
    "torch.package": "loads code",
    "torch.multiprocessing": "starts processes",
    "torch.distributed": "starts processes",
    "torch.overrides": "changes how PyTorch dispatches",
    "torch.utils.cpp_extension": "compiles C++",
    "torch.utils.dlpack": "hands memory out",
    "torch.utils.benchmark": "runs text as code",
    "torch.utils.bottleneck": "runs text as code",
    "torch.utils.collect_env": "starts processes",
    "torch.utils.data.DataLoader": "starts processes",
    "torch.utils.data.datapipes": "reads files",
    "torch.utils.file_baton": "reaches the disk",
    "torch.utils.hipify": "writes files",
    "torch.utils.model_zoo": "downloads code",
    "torch.utils.tensorboard": "writes files",
    "torch.utils.throughput_benchmark": "takes the clock",
    "torch.serialization": "reads files",
    "torch.onnx": "writes files",
    "torch.profiler": "takes the clock",
    "torch.autograd.profiler": "takes the clock",
    "torch.cuda.profiler": "takes the clock",
    "torch.cuda.jiterator": "compiles C++",
    "torch.cuda.CUDAPluggableAllocator": "loads code",
    "torch.cuda.change_current_allocator": "loads code",
    "torch.cuda.memory.CUDAPluggableAllocator": "loads code",
    "torch.cuda.gds": "reads files",
    "torch.cuda.tunable": "writes files",
    "torch.monitor": "takes the clock",
    "torch.get_device_module": "gives a module by name",
    "torch.from_file": "reads files",
    "torch.fx": "rewrites programs",
    "torch.export": "rewrites programs",
    "torch.cuda.CUDAGraph": "replays work that can't be recorded",
    "torch.cuda.graph": "replays work that can't be recorded",
    "torch.cuda.graphs": "replays work that can't be recorded",
    "torch.cuda.make_graphed_callables": "replays work that can't be recorded",
    "torch.manual_seed": "changes global state",
    "torch.seed": "changes global state",
    "torch.set_default_device": "changes global state",
    "torch.set_default_dtype": "changes global state",
    "torch.set_default_tensor_type": "changes global state",
    "torch.set_num_threads": "changes global state",
    "torch.set_rng_state": "changes global state",
    "torch.set_deterministic_debug_mode": "changes global state",
    "torch.set_float32_matmul_precision": "changes global state",
    "torch.set_flush_denormal": "changes global state",
    "torch.set_num_interop_threads": "changes global state",
    "torch.use_deterministic_algorithms": "changes global state",
    "triton.backends": "reaches the compiler",
    "triton.compiler": "reaches the compiler",
    "triton.knobs": "reaches the compiler",
    "triton.testing": "takes the clock",
    "triton.profiler": "takes the clock",
    "triton.runtime.interpreter": "replaces the compiler",
    "triton.runtime.build": "compiles C",
    "triton.runtime.cache": "reaches the disk",
    "triton.runtime.driver.set_active": "replaces the driver",
    "triton.runtime.driver.reset_active": "replaces the driver",
    "triton.runtime.driver.driver": "replaces the driver",
    "triton.tools.build_extern": "starts processes",
    "triton.tools.compile": "reaches the compiler",
    "triton.tools.disasm": "starts processes",
    "triton.tools.link": "reaches the compiler",
    "contextlib.chdir": "reaches the disk",
    "contextlib.redirect_stderr": "changes global state",
    "contextlib.redirect_stdout": "changes global state",
    "dataclasses.make_dataclass": "makes classes by hand",
    "enum.global_enum": "changes modules",
    "functools.singledispatch": "runs text as code",
    "functools.singledispatchmethod": "runs text as code",
    "functools.update_wrapper": "sets attributes by name",
    "typing.ForwardRef": "runs text as code",
    "typing.get_type_hints": "runs text as code",
    "typing_extensions.ForwardRef": "runs text as code",
    "typing_extensions.evaluate_forward_ref": "runs text as code",
    "typing_extensions.get_type_hints": "runs text as code",
}

# What to do instead, by what is wrong.
ADVICE = {
    "calls operators by name": "call it as torch.<name>",
    "changes global state": "leave it as it is",
    "changes how PyTorch dispatches": "call a Triton kernel in forward",
    "changes modules": "keep what you need in ModelNew",
    "compiles C": "write a Triton kernel",
    "compiles C++": "write a Triton kernel",
    "compiles Python by other means": "write a Triton kernel",
    "deletes attributes by name": "write the name out",
    "gives a module by name": "write torch.cuda",
    "imports by name": "write an import statement",
    "is the baseline, not a kernel": "write a Triton kernel",
    "makes classes by hand": "write a class statement",
    "reaches names by text": "write the name out",
    "reads files": "compute what you need in __init__",
    "registers operators": "call the kernel in forward",
    "rewrites programs": "write a Triton kernel",
    "runs text as code": "write the code out",
    "sets attributes by name": "write the name out",
    "takes the clock": "leave measuring to the evaluator",
}
OTHERWISE = "do without it"

DENIED_CALLS = {
    "exec": "runs text as code", "eval": "runs text as code", "compile": "runs text as code",
    "open": "reaches the disk", "input": "reads the terminal", "breakpoint": "stops the program",
    "__import__": "imports by name", "globals": "reaches names by text",
    "locals": "reaches names by text", "vars": "reaches names by text",
    "setattr": "sets attributes by name", "delattr": "deletes attributes by name",
    "memoryview": "reaches memory", "__build_class__": "makes classes by hand", "exit": "ends the "
    "program", "quit": "ends the program", "help": "reads the terminal",
}  # fmt: skip

# Of those, what a file may use as a name of its own.
OWN_NAMES = ("breakpoint", "exit", "help", "input", "quit")

# Values that may be called with plain text only, and not be given another meaning.
BY_TEXT = ("getattr", "hasattr")

# Decorators and functions of others that change what they are given.
MARKING = frozenset({
    "abc.update_abstractmethods", "dataclasses.dataclass", "enum.unique",
    "functools.total_ordering", "functools.wraps", "torch.utils.set_module", "typing.final",
    "typing.no_type_check", "typing.runtime_checkable",
})  # fmt: skip

# How functions of torch.backends begin that set something for the whole process.
SETTERS = ("enable_", "flags", "preferred_", "set_")

# Attributes that lead from an object to frames, code, files or the globals of others.
INTERNALS = frozenset({
    "_unsafe_update_src", "ag_await", "ag_code", "ag_frame", "bench_time", "cr_await", "cr_code",
    "cr_frame", "cr_origin", "f_back", "f_builtins", "f_code", "f_globals", "f_lasti", "f_lineno",
    "f_locals", "f_trace", "from_callable", "from_file", "get_capture_scope", "gi_code", "gi_frame",
    "gi_yieldfrom", "mro", "tb_frame", "tb_lasti", "tb_next", "used_global_vals",
})  # fmt: skip

# What changes a list, a table or a set.
CHANGES = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert",
    "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault",
    "sort", "symmetric_difference_update", "update",
})  # fmt: skip

ALLOWED_DUNDERS = frozenset({
    "__init__", "__name__", "__doc__", "__version__", "__post_init__", "__call__", "__repr__",
    "__all__", "__main__", "__future__", "__hash__", "__eq__", "__len__", "__iter__", "__next__",
    "__enter__", "__exit__", "__getitem__", "__slots__",
})  # fmt: skip

# Methods that a class may define beside those: operators, and what the recording itself judges.
OWN_METHODS = ALLOWED_DUNDERS | {
    f"__{name}__" for name in (
        "abs add and bool bytes ceil complex contains delitem divmod enter eq exit float floor "
        "floordiv format ge gt iadd iand ifloordiv ilshift imatmul imod imul index int invert ior "
        "ipow irshift isub itruediv ixor le length_hint lshift lt matmul missing mod mul ne neg or "
        "pos pow radd rand rdivmod reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow "
        "rrshift rshift rsub rtruediv rxor setitem str sub torch_dispatch torch_function truediv "
        "trunc xor").split()}

# Names that have no business in a kernel file, not even inside a string.
TELLTALES = ("__globals__", "__builtins__", "__subclasses__", "__import__", "__code__", "__dict__",
             "__mro__", "__bases__", "__getattribute__", "__reduce__", "__loader__")
