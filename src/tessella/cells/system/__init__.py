"""All cells of a problem: what is asked of each, and where they meet."""
