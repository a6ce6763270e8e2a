"""The machine below: NumPy or JAX, memory, threads, compiled programs, files written whole."""
