"""A page of headings, paragraphs, tables and pictures, written as Markdown and as HTML."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Marked:
    """A table cell with a verdict: a sign in Markdown, sign and colour in HTML."""

    text: str
    verdict: str

    @property
    def sign(self) -> str:
        return SIGNS.get(self.verdict, "")


SIGNS = {
    "good": "✓",
    "better": "▲",
    "bad": "✗",
    "open": "·",
}
"""Never colour alone: each verdict has a sign as well."""

Text = str | Marked


@dataclass
class Page:
    """Blocks in order, each as Markdown and as HTML."""

    title: str
    _blocks: list[tuple[str, str]] = field(default_factory=list)

    def heading(self, text: str, level: int = 2) -> None:
        tag = f"h{level}"
        self._blocks.append((f"{'#' * level} {text}", f"<{tag}>{html.escape(text)}</{tag}>"))

    def paragraph(self, text: str) -> None:
        self._blocks.append((text, f"<p>{html.escape(text)}</p>"))

    def bullets(self, items: list[str]) -> None:
        inside = "".join(f"<li>{html.escape(item)}</li>" for item in items)
        self._blocks.append(("\n".join(f"- {item}" for item in items), f"<ul>{inside}</ul>"))

    def table(self, heads: list[str], rows: list[list[Text]]) -> None:
        lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
        lines += [" | ".join(_plain(cell) for cell in row) for row in rows]
        head = "".join(f"<th>{html.escape(h)}</th>" for h in heads)
        body = "".join(f"<tr>{''.join(_cell(c) for c in row)}</tr>" for row in rows)
        web = (
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        self._blocks.append(("\n".join(f"| {line} |" for line in lines), web))

    def picture(self, path: Path, caption: str, link: str) -> None:
        """`link` is the path from the Markdown file; the HTML page carries the picture itself."""
        data = base64.b64encode(path.read_bytes()).decode()
        web = (
            f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
        self._blocks.append((f"![{caption}]({link})\n\n*{caption}*", web))

    def markdown(self) -> str:
        return "\n\n".join([f"# {self.title}", *(plain for plain, _ in self._blocks)]) + "\n"

    def html(self) -> str:
        title = html.escape(self.title)
        body = "\n".join(web for _, web in self._blocks)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{STYLE}</style></head>\n"
            f"<body><h1>{title}</h1>\n{body}\n</body></html>\n"
        )


def _plain(cell: Text) -> str:
    text = f"{cell.text} {cell.sign}".strip() if isinstance(cell, Marked) else cell
    return text.replace("|", "\\|")


def _cell(cell: Text) -> str:
    if isinstance(cell, Marked):
        sign = f' <b aria-label="{cell.verdict}">{cell.sign}</b>' if cell.sign else ""
        return f'<td class="{cell.verdict}">{html.escape(cell.text)}{sign}</td>'
    return f"<td>{html.escape(cell)}</td>"


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.82rem;margin:1rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
th{background:#f4f4f4}td{font-variant-numeric:tabular-nums}
.good b,.better b{color:#0072b2}.bad{background:#fdece0}.bad b{color:#d55e00}.open{color:#777}
figure{margin:1.5rem 0}img{max-width:100%}figcaption{font-size:.85rem;color:#555}
""".replace("\n", "")
