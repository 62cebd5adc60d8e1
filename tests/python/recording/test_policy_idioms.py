"""What honest candidates write: none of it may be refused."""

from __future__ import annotations

import unittest

from kernel_evolve_worker.recording.policy import check
from support import candidate

# Beside the imports of every candidate. Each is a piece of a file, as people and models write it.
IDIOMS = (
    # -- kernels
    "@triton.autotune(configs=[triton.Config({'B': b}, num_warps=w, num_stages=s)\n"
    "                          for b in (32, 64) for w in (2, 4) for s in (2, 3)], key=['n'])\n"
    "@triton.jit\ndef k(x, n, B: tl.constexpr): pass",
    "def prune(configs, named_args, **kwargs):\n"
    "    return [c for c in configs if c.kwargs['B'] <= named_args['n']] or configs[:1]\n"
    "@triton.autotune(configs=[triton.Config({'B': 64})], key=['n'],\n"
    "                 prune_configs_by={'early_config_prune': prune})\n@triton.jit\n"
    "def k(x, n, B: tl.constexpr): pass",
    "@triton.heuristics({'EVEN': lambda args: args['n'] % args['B'] == 0,\n"
    "                    'B': lambda args: triton.next_power_of_2(args['n'])})\n@triton.jit\n"
    "def k(x, n, B: tl.constexpr, EVEN: tl.constexpr): pass",
    "@triton.jit\ndef gelu(v):\n    return 0.5 * v * (1 + tl.math.erf(v * 0.7071))\n"
    "@triton.jit\ndef k(x, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
    "    tl.store(x + i, gelu(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)",
    "@triton.jit\ndef k(x, ACT: tl.constexpr):\n    v = tl.load(x)\n    if ACT == 'tanh':\n"
    "        v = tl.extra.cuda.libdevice.tanh(v)\n    else:\n"
    "        v = tl.extra.libdevice.tanh(v)\n    tl.store(x, v)",
    "from triton.language.extra.cuda import libdevice\n@triton.jit\ndef k(x):\n"
    "    tl.store(x, libdevice.rsqrt(tl.load(x)))",
    "try:\n    from triton.language.extra import libdevice\nexcept ImportError:\n"
    "    from triton.language.math import tanh\n",
    "try:\n    import triton.language.extra.cuda.libdevice as libdevice\nexcept ImportError:\n"
    "    libdevice = tl.math\ntanh = libdevice.tanh",
    "tanh = tl.extra.libdevice.tanh if hasattr(tl.extra, 'libdevice') else tl.math.exp",
    "@triton.jit\ndef add(a, b):\n    return a + b\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n"
    "    v = tl.load(x + tl.arange(0, B))\n    tl.store(x, tl.reduce(v, 0, add))\n"
    "    tl.store(x, tl.sum(tl.associative_scan(v, 0, add), axis=0))",
    "@triton.jit\ndef k(a, b, c, K, BK: tl.constexpr):\n"
    "    acc = tl.zeros((16, 16), tl.float32)\n"
    "    for start in tl.range(0, K, BK, num_stages=3):\n"
    "        acc += tl.dot(tl.load(a), tl.load(b), allow_tf32=False, out_dtype=tl.float32)\n"
    "        a += BK\n        b += BK\n    c.store(acc.to(c.dtype.element_ty))",
    "INF: tl.constexpr = float('inf')\nLOG2E = tl.constexpr(1.4426950408889634)",
    "from triton.tools.tensor_descriptor import TensorDescriptor\n"
    "def describe(x): return TensorDescriptor.from_tensor(x, [64, 64])",
    "@triton.jit\ndef one(x): pass\n@triton.jit\ndef two(x): pass\n"
    "KERNELS = {'one': one, 'two': two}\ndef launch(name, x):\n    KERNELS[name][(1,)](x)",
    "@triton.jit\ndef k(x): pass\ndef run(x, **meta):\n"
    "    grid = lambda meta: (triton.cdiv(8, 4),)\n    k[grid](x, **meta)\nrun(1, num_warps=4)",
    "TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}\n"
    "TYPES.update({torch.float64: tl.float64})\nTYPES.setdefault(torch.int32, tl.int32)\n"
    "def of(x): return TYPES[x.dtype].primitive_bitwidth",
    "def sms():\n    return torch.cuda.get_device_properties(0).multi_processor_count",
    "def run(x):\n    with torch.cuda.device(x.device):\n        return torch.empty_like(x)",
    "major, minor = torch.cuda.get_device_capability()\nHOPPER = (major, minor) >= (9, 0)",
    "def grid(n):\n    return (min(triton.cdiv(n, 64), 132),)",
    "@torch.no_grad()\ndef f(x): return x\nwith torch.inference_mode(): pass",
    "@triton.jit\ndef scale(x): pass\nscale.note = 1\n"
    "names = scale.arg_names, scale.__name__, scale.fn.__name__\n"
    "@triton.jit\ndef k(x): pass\nclass Launch:\n"
    "    def __init__(self, kernel):\n        self.kernel = kernel\n        self.cache = {}\n"
    "        self.fn = self.run = None\n    def compile(self, x):\n"
    "        self.cache[x.shape] = self.kernel[(1,)](x)\n        return self.cache\n"
    "launch = Launch(k)\nlaunch.compile(1).update({})\nlaunch.kernel = scale",
    "@triton.autotune([triton.Config({'B': 64}, pre_hook=lambda a: a['x'].zero_())], key=['n'],\n"
    "                 reset_to_zero=['x'], restore_value=['n'], pre_hook=None, post_hook=None,\n"
    "                 do_bench=lambda call, quantiles: [1.0])\n"
    "@triton.jit(repr=lambda s: 'k', launch_metadata=lambda *a: {}, noinline=True,\n"
    "            do_not_specialize=['n'])\ndef k(x, n, B: tl.constexpr): pass\n"
    "best = k.best_config, k.configs, len(k.cache)",
    # -- modules
    "import torch.nn.functional as F\n"
    "ACT = {'relu': F.relu, 'gelu': F.gelu, None: lambda x: x}\nclass Block(nn.Module):\n"
    "    def __init__(self, act='relu'):\n        super().__init__()\n"
    "        self.act = ACT[act]\n        self.training_only = False\n"
    "    def forward(self, x):\n        return self.act(x) if self.training else F.linear(x, x)",
    "class Net(nn.Module):\n    def __init__(self, n):\n        super(Net, self).__init__()\n"
    "        self.layers = nn.ModuleList([nn.Linear(n, n) for _ in range(3)])\n"
    "        self.layers.append(nn.Linear(n, n))\n"
    "        self.weight = nn.Parameter(torch.empty(n))\n"
    "        self.register_buffer('mask', torch.ones(n), persistent=False)\n"
    "        self.reset_parameters()\n    def reset_parameters(self):\n"
    "        nn.init.kaiming_uniform_(self.layers[0].weight, a=5 ** 0.5)\n"
    "        nn.init.uniform_(self.weight, -1, 1)\n        self.weight.data.fill_(1.0)\n"
    "        with torch.no_grad():\n            self.layers[0].bias.zero_()",
    "class A(nn.Module):\n    def extra_repr(self):\n"
    "        type(self).shown = True\n"
    "        return f'{self.__class__.__name__} of {type(self).__name__}, {self.n=}'",
    "def forward(input, help=None, *, id=0, len=1, exit=2, type=3):\n"
    "    return input.sum() + help if isinstance(input, torch.Tensor) else input",
    "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, y):\n"
    "        ctx.save_for_backward(x, y)\n        ctx.eps = 1e-5\n"
    "        ctx.set_materialize_grads(False)\n        return x * y\n    @staticmethod\n"
    "    @torch.autograd.function.once_differentiable\n    def backward(ctx, grad):\n"
    "        x, y = ctx.saved_tensors\n        return grad * y, None",
    "DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\nx = torch.randn(4, device=DEVICE)",
    "class M(nn.Linear):\n    def __init__(self, *args, **kwargs):\n"
    "        super().__init__(*args, **kwargs)\n        self.bias = None\n"
    "        self._packed = None\n    @property\n    def packed(self): return self._packed\n"
    "    @packed.setter\n    def packed(self, value): self._packed = value",
    "class Cfg:\n    class Inner:\n        a = 1\n    class Deeper(Inner):\n        b = 2\n"
    "class More(Cfg.Inner): pass",
    # -- Python
    "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass C:\n"
    "    n: int = 1\n    sizes: list = field(default_factory=list)\n"
    "    dtype: torch.dtype = torch.float32\n"
    "    def __post_init__(self): assert self.n > 0, f'{self.n} is not positive'\n"
    "c = C(dtype=torch.float16)\nwidth = c.dtype.itemsize",
    "from typing import Any, Callable, List, NamedTuple, Optional, Tuple, TYPE_CHECKING, Union\n"
    "class P(NamedTuple):\n    a: int\n    b: Optional[torch.Tensor] = None\n"
    "def f(x: Union[int, torch.Tensor], g: Callable[..., Any] = max) -> Tuple[int]: return (1,)",
    "from typing import Protocol, TypeVar, Generic, overload\n"
    "T = TypeVar('T', bound=nn.Module)\nclass G(Generic[T]):\n    @overload\n"
    "    def f(self, x: int) -> int: ...\n    def f(self, x): return x",
    "from functools import lru_cache, partial, reduce, wraps\n@lru_cache(maxsize=None)\n"
    "def blocks(n: int) -> int:\n    return triton.next_power_of_2(n)\n"
    "half = partial(blocks, 2)\ndef traced(f):\n    @wraps(f)\n"
    "    def inner(*a, **k): return f(*a, **k)\n    return inner\n@traced\n"
    "def g(x): return reduce(lambda a, b: a * b, x, 1)",
    "import math\nSCALE = 1.0 / math.sqrt(64)\nN = math.prod((1, 2)) * int(math.log2(8))",
    "import functools\n@functools.wraps(nn.functional.relu)\ndef relu(x): return x",
    "def library():\n    try:\n        from triton.language.extra import libdevice\n"
    "    except ImportError:\n        libdevice = tl.math\n    return libdevice\nlib = library()\n"
    "net = nn.Sequential(nn.ReLU())\nnet.bias = None\nnet._packed = net.erf = None\n"
    "sizes = list(range(3))\nsizes.append(4)\nsizes[0] = 1",
    "import itertools\nCONFIGS = [triton.Config({'M': m, 'N': n})\n"
    "           for m, n in itertools.product((16, 32), repeat=2)]",
    "from collections import OrderedDict, defaultdict\nseen = defaultdict(list)\n"
    "seen['a'].append(1)\nnet = nn.Sequential(OrderedDict([('fc', nn.Linear(1, 1))]))\n"
    "net.fc.bias = None",
    "from abc import ABC, ABCMeta, abstractmethod\nclass Base(ABC):\n    @abstractmethod\n"
    "    def run(self): ...\nclass Other(metaclass=ABCMeta): pass",
    "from enum import Enum, auto\nclass Act(Enum):\n    RELU = auto()\n    GELU = 'gelu'\n"
    "act = Act['RELU'].value",
    "import warnings\nwarnings.filterwarnings('ignore')\nwith warnings.catch_warnings():\n"
    "    warnings.simplefilter('ignore')",
    "class V:\n    def __init__(self, a): self.a = a\n"
    "    def __mul__(self, o): return V(self.a)\n    __rmul__ = __mul__\n"
    "    def __imatmul__(self, o): return self\n    def __matmul__(self, o): return self @ o\n"
    "    def __setitem__(self, k, v): self.a[k] = v\nclass D(dict):\n"
    "    def __setitem__(self, k, v): super().__setitem__(k, v)",
    "def outer():\n    count = 0\n    def inner(x, *rest, scale=1.0, **more):\n"
    "        nonlocal count\n        count += 1\n"
    "        return [scale * r for r in rest if r is not None]\n    return inner",
    "def stable(x):\n    try:\n        return x.view(-1)\n"
    "    except (RuntimeError, ValueError) as error:\n"
    "        raise ValueError(f'{tuple(x.shape)}: {error}') from error",
    "def pick(n):\n    match n:\n        case 1 | 2: return 16\n"
    "        case int() if n > 8: return 32\n        case _: return 64",
    "out_of = triton.runtime.errors.OutOfResources",
    "dot = getattr(tl, 'dot_scaled', None)",
    "if __name__ == '__main__':\n    import time, numpy\n    torch.manual_seed(0)\n"
    "    triton.testing.do_bench(lambda: 1)\n    print(open('x').read())",
    "if '__main__' != __name__:\n    x = 1",
    "__all__ = ['ModelNew']\n__version__ = '1.0'\n__all__ += ['x']",
    "def f(x):\n"
    "    assert x.is_contiguous() and x.dtype == torch.float32, 'x must be contiguous'\n"
    "    M, K = x.shape\n    *lead, last = x.size()\n"
    "    y = x.reshape(-1, last).to(torch.bfloat16)\n    torch.cuda.synchronize()\n"
    "    return y.view(*lead, last), y.data_ptr(), y.stride(0)",
    "stream = torch.cuda.current_stream().cuda_stream\n"
    "print(torch.__version__, triton.__version__)",
    "m = nn.Linear(1, 1)\nfor name, p in m.named_parameters():\n    p.requires_grad_(False)\n"
    "    p.data = p.data.contiguous()\nm.weight.requires_grad = False",
    "if hasattr(torch, 'float8_e4m3fn'):\n    F8 = torch.float8_e4m3fn\n"
    "make = tl.make_tensor_descriptor if hasattr(tl, 'make_tensor_descriptor') else None",
    "tf32 = torch.backends.cuda.matmul.allow_tf32\ng = lambda x, *_, **__: type(x)(x)\n"
    "__ = [0 for __ in range(3)]",
    "def f(fn, *tensors): return fn(*[t.contiguous() for t in tensors])\n"
    "y = f(torch.add, torch.ones(1), torch.ones(1))\nz = f(F_relu := nn.functional.relu, y)",
)


class Idioms(unittest.TestCase):
    def test_none_is_refused(self) -> None:
        for idiom in IDIOMS:
            with self.subTest(idiom):
                self.assertIsNone(check(candidate(kernel=idiom)))

    def test_none_is_refused_among_the_others(self) -> None:
        """A name that means one thing here and another there mustn't matter."""
        self.assertIsNone(check(candidate(kernel="\n".join(IDIOMS))))


if __name__ == "__main__":
    unittest.main()
