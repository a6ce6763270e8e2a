"""tessella beside other software, by one metric; `python -m benchmarks.peers --help`."""
