"""In which order cells are joined."""
