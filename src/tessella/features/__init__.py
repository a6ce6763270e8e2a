"""What solutions are made of: random features, functions of one's own."""
