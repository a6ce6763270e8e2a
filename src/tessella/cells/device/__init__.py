"""The same on a GPU: cells of a regular grid, all at once."""
