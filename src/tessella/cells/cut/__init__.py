"""What a boundary leaves of boxes."""
