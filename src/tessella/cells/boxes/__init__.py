"""Boxes side by side and the faces between them."""
