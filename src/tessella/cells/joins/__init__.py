"""Cells joined by their maps, merged up a tree or exchanged."""
