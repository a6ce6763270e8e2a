"""Block-sparse linear algebra that knows nothing of PDEs."""
