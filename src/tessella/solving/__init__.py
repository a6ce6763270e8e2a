"""The front doors: solve, to a tolerance, slab by slab in time."""
