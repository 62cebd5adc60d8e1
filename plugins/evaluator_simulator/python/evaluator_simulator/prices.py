"""The arithmetic of PyTorch's operators, for those whose time can be told from it and their bytes.

An operator is priced by a formula for its arithmetic, or by its bytes alone. The second is right
only where each element takes a few operations; so it has to be known of an operator, from the tags
of its schema or from the list here, that it works element by element, moves elements, or reduces
or normalises them. Any other one is unpriced: it may hide a product that would cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

# Operators whose schema's tags don't tell that bytes are what they cost, by kind.
_BY_BYTES = frozenset({
    # new tensors
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "fill", "full",
    "full_like", "linspace", "logspace", "new_empty", "new_empty_strided", "new_full", "new_ones",
    "new_zeros", "ones", "ones_like", "range", "scalar_tensor", "tril_indices", "triu_indices",
    "zero", "zeros", "zeros_like",
    # copies
    "_conj_copy", "_copy_from", "_lazy_clone", "_pin_memory", "_reshape_copy", "_stack", "_to_copy",
    "_unsafe_view", "block_diag", "cat", "channel_shuffle", "col2im", "constant_pad_nd",
    "contiguous", "copy", "detach", "diag_embed", "diagonal_scatter", "as_strided_scatter",
    "fill_diagonal", "flip", "im2col", "lift", "lift_fresh", "lift_fresh_copy",
    "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "repeat", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "roll", "rot90", "select_scatter", "slice_scatter", "stack", "tril",
    "triu", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vander",
    # elements at computed places
    "_index_put_impl", "_unsafe_index", "_unsafe_index_put", "_unsafe_masked_index", "bucketize",
    "embedding", "gather", "index", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "index_select", "masked_fill", "masked_scatter", "max_unpool2d", "max_unpool3d",
    "put", "repeat_interleave", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "take",
    # element by element
    "_add_relu", "_prelu_kernel", "addr", "binary_cross_entropy", "bitwise_not", "cross", "elu",
    "gelu", "glu", "huber_loss", "l1_loss", "leaky_relu", "linalg_cross", "log_sigmoid",
    "log_sigmoid_forward", "masked_scale", "mse_loss", "nll_loss", "nll_loss2d",
    "nll_loss2d_forward", "nll_loss_forward", "prelu", "rrelu_with_noise", "smooth_l1_loss",
    "soft_margin_loss",
    # each element enters one result or a few
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "_aminmax", "addmv", "dist", "dot", "equal", "histc", "is_nonzero", "kthvalue", "median",
    "mode", "mv", "nanmedian", "trace", "vdot",
    "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    # along a row
    "_cummax_helper", "_cummin_helper", "_logcumsumexp", "argsort", "cummax", "cummin", "cumprod",
    "cumsum", "logcumsumexp", "msort", "sort", "topk",
    # norms
    "_batch_norm_no_update", "_batch_norm_with_update", "_fused_rms_norm", "_log_softmax",
    "_masked_softmax", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "_safe_softmax", "_softmax", "_weight_norm",
    "_weight_norm_interface", "batch_norm", "group_norm", "layer_norm", "native_batch_norm",
    "native_group_norm", "native_layer_norm", "native_norm", "norm_except_dim", "renorm",
    "rms_norm",
})  # fmt: skip

_TAGS = tuple(getattr(torch.Tag, name) for name in ("pointwise", "reduction", "view_copy")
              if hasattr(torch.Tag, name))


class Unpriced(Exception):
    """The time of an operator can't be told from what it is called with."""


def flops(operator: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> int:
    """What a call computes: 0 where its bytes are what it costs. Raises Unpriced."""
    formula = _formula(operator)
    if formula is None:
        if not priced_by_bytes(operator):
            raise Unpriced
        return 0
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except Exception as error:  # noqa: BLE001 - a formula that doesn't fit the call
        raise Unpriced from error


def is_priced(operator: Any) -> bool:
    return _formula(operator) is not None or priced_by_bytes(operator)


@lru_cache(maxsize=512)
def priced_by_bytes(operator: Any) -> bool:
    """Whether an operator's time is that of its bytes."""
    if any(r.alias_info is not None and not r.alias_info.is_write
           for r in operator._schema.returns):  # a view
        return True
    if _base(operator) in _BY_BYTES:
        return True
    return any(tag in getattr(packet, overload).tags for packet in _packets(operator)
               for overload in packet.overloads() for tag in _TAGS)


def _base(operator: Any) -> str:
    """The name without what tells that it works in place: "add" for aten.add_.Tensor."""
    name = operator.overloadpacket.__name__
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _packets(operator: Any) -> list[Any]:
    """All forms of an operator, and of the one that it is in place of."""
    packet, twin = operator.overloadpacket, getattr(torch.ops.aten, _base(operator), None)
    return [packet] if twin is None or twin is packet else [packet, twin]


def _formula(operator: Any) -> Callable[..., Any] | None:
    from torch.utils.flop_counter import flop_registry

    own = _OWN.get(_base(operator))
    if own is not None:
        return own
    return next((flop_registry[packet] for packet in _packets(operator)
                 if packet in flop_registry), None)


def _addbmm(_: Any, left: torch.Tensor, right: torch.Tensor, **__: Any) -> int:
    return 2 * left.numel() * right.shape[-1]


def _window(sides: int) -> Callable[..., int]:
    """Pooling over windows of `sides` dimensions: each result looks at its whole window."""

    def formula(_: Any, window: Any, *__: Any, out_val: Any, **___: Any) -> int:
        out = out_val[0] if isinstance(out_val, (tuple, list)) else out_val
        given = [window] if isinstance(window, int) else window
        size = given[0] ** sides if len(given) == 1 else math.prod(given)
        return out.numel() * size

    return formula


def _bag(weight: torch.Tensor, indices: torch.Tensor, *_: Any, **__: Any) -> int:
    """A bag with weights is a product: each index adds a scaled row."""
    return 2 * indices.numel() * weight.shape[1]


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any,
               **__: Any) -> int:
    rows = query.numel() // max(1, query.shape[-1])
    return 2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


_OWN: dict[str, Callable[..., Any]] = {
    "addbmm": _addbmm,
    **{f"{kind}{sides}d{end}": _window(sides) for sides in (1, 2, 3)
       for kind in ("avg_pool", "max_pool", "mkldnn_max_pool") for end in ("", "_with_indices")},
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bag),
    # Not every PyTorch counts this one.
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}
