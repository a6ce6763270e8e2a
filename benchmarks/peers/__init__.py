"""tessella beside other software, in one run, by one metric; `python -m benchmarks.peers --help`."""
