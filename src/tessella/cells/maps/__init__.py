"""Maps of cells: what goes in to what comes out."""
