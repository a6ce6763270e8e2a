"""Speed, memory and accuracy as measured; `python -m benchmarks --help`."""
