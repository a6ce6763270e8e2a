"""What a notebook shows of a solution that stands at the end of a cell."""

from __future__ import annotations

import base64
import html
import tempfile
from pathlib import Path

from tessella.solution.export import Sampled


def as_html(solution: Sampled) -> str:
    """A picture and the report; the report alone where there is no picture of it."""
    report = f"<pre>{html.escape(str(solution))}</pre>"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution.png"
        try:
            solution.plot(path)
        except (ImportError, ValueError):
            return report
        picture = base64.b64encode(path.read_bytes()).decode()
    name = html.escape(repr(solution), quote=True)
    return (
        f'<img src="data:image/png;base64,{picture}" alt="{name}" style="max-width: 100%">{report}'
    )
