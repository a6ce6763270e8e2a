"""Reference solutions computed by other means."""
