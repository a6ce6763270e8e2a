"""Cells that a boundary may cut."""
