"""Starts the zygote: `python -I <this file> --jail <libke_jail.so>`.

Run by path with -I, so that neither the current folder nor PYTHONPATH can bring in other code.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from kernel_evolve_worker.zygote import main

    status = main()
    sys.stderr.flush()
    os._exit(status)  # the libraries' own tidying prints, and everything is released anyway
