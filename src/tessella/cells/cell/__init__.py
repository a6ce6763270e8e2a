"""One cell: its features, its rows, what it takes and gives."""
