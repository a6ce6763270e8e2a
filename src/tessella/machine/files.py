"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; at the end it is forced to disk and takes that place.

    A reader sees the old file or the whole new one, and what fails or is interrupted leaves the
    old one. Several files change together with several of these in one `with`.
    """
    unfinished = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
