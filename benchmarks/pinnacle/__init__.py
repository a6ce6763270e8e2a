"""PINNacle's cases (Hao et al. 2023, arXiv 2306.08827), each stated in a few lines and solved by
one call. `python -m benchmarks.pinnacle NAME ...` runs some of them and keeps the other rows."""
