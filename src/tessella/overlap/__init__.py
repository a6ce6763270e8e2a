"""The paper's way: overlapping subdomains, windows times features, one least-squares system."""
