"""Every constant of the timing protocol, each with its reason. VERSION rises when one changes."""

from __future__ import annotations

VERSION = 3

# Bytes that fill unwritten memory. One makes NaN and -1. The others, drawn for each candidate, make
# numbers of ordinary size of either sign: 7e-4 to 3e4 in fp32 and bf16, 0.7 to 7 in fp16.
POISON_NAN = 0xFF
POISONS_ORDINARY = (*range(0x3A, 0x47), *range(0xBA, 0xC7))
# How many of those: runs on the same data that differ tell that unwritten memory was read.
POISONS_DRAWN = 2

# Samples that are thrown away after the device was handed over: clocks and caches of the other.
DROPPED = 2
# Samples of the first look, per contender.
SCREENING = 9
# A contender that the first look puts below this ratio to eager gets no full measurement.
SCREENING_FLOOR = 0.9
# A block is one contender's turn; a round is eager, compile, candidate, candidate, compile, eager,
# so that a drift that is even over a round cancels.
ROUNDS = 6
# No round more once what scatters is this share of what no repetition shows, after so many: a
# narrower interval would say nothing that the clock knows.
ENOUGH_ROUNDS = 3
ENOUGH = 0.5
# Rounds of the second measurement, in a fresh process.
CONFIRMING_ROUNDS = 3
# Samples in a block: more of short calls, because they scatter more, within BLOCK_S.
MIN_BLOCK, MAX_BLOCK = 5, 10
BLOCK_S = 0.03
# Up to so many samples more in a block, a number that is drawn: a kernel that counts its calls
# doesn't know which of them end a block.
EXTRA_SAMPLES = 3
# What the clock may be wrong by between two processes that time the same kernel, as a share and in
# milliseconds (an event's tick): added to either side of an interval. From A/A runs on an H200.
SYSTEMATIC = 0.01
TICK_MS = 0.00015
# Longest pause of the device before a call, so that its launches queue up behind it.
MIN_PAUSE_NS, MAX_PAUSE_NS = 20_000, 20_000_000
# Drift of eager over a measurement from which it is said to be unsteady, and no win is given.
DRIFT = 0.05
# What one launch costs the host in Python, for a note beside the measured time: a chain of 64
# launches took the host of an H200 1.35 ms (tests/kernels/h200.json).
HOST_CALL_MS = 0.02
# Seconds that one run of a tape may take beside HOPELESS times eager's time: buffers are filled and
# compared, too.
RUN_S = 4.0
HOPELESS = 50.0
# Seconds for any other request to the replay, such as copying large inputs.
RUN_DEADLINE_S = 60.0
