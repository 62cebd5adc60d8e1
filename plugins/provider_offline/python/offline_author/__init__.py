"""An author without a model: reads a task, finds what can be fused, and writes Triton for it.

`answer.answer` is the entry; `author.write_candidate` writes a file for a task and a gene point.
"""
