"""Slab after slab."""
