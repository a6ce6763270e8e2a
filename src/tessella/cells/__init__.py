"""Subdomains side by side, joined by maps of what goes in to what comes out."""
