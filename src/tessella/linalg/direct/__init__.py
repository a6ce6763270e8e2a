"""QR of the whole by nested dissection."""
