"""Some cases by name, or all."""

import sys

from benchmarks.pinnacle.board import pinnacle

if __name__ == "__main__":
    pinnacle(*sys.argv[1:])
