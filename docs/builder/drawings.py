"""The drawings of the pages: `python -m docs.builder.drawings` writes them to docs/site/drawings.

Plain SVG in the colours of the text around it, so that they are as legible in the dark.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "site" / "drawings"

BLUE, ORANGE = "#2a7fbf", "#d9731a"


def box(x: float, y: float, width: float, height: float, text: str, colour: str = "") -> str:
    """A rounded box around lines of text."""
    lines = text.split("\n")
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    words = "".join(
        label(x + width / 2, top + 18 * k, line, size=14 if k == 0 else 12)
        for k, line in enumerate(lines)
    )
    fill = f'fill="{colour}" fill-opacity="0.15"' if colour else 'fill="none"'
    stroke = colour or "currentColor"
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" {fill} '
        f'stroke="{stroke}" stroke-width="1.4"/>{words}'
    )


def label(x: float, y: float, text: str, size: int = 13, colour: str = "currentColor") -> str:
    place = f'x="{x}" y="{y}" font-size="{size}" text-anchor="middle"'
    return f'<text {place} fill="{colour}">{text}</text>'


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str = "currentColor") -> str:
    """A line that ends in a head."""
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
    a, b = (to_x - x) / length, (to_y - y) / length
    back_x, back_y = to_x - 8 * a, to_y - 8 * b
    head = f"{to_x},{to_y} {back_x - 4 * b},{back_y + 4 * a} {back_x + 4 * b},{back_y - 4 * a}"
    return (
        f'<line x1="{x}" y1="{y}" x2="{back_x}" y2="{back_y}" stroke="{colour}" '
        f'stroke-width="1.6"/><polygon points="{head}" fill="{colour}"/>'
    )


def drawing(width: int, height: int, *parts: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" color="#444">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def flow() -> str:
    """From a problem to a solution that is judged by another one."""
    return drawing(
        760,
        260,
        box(10, 20, 130, 54, "Problem\nequation, conditions", BLUE),
        box(10, 100, 130, 54, "Method\nor a tolerance", BLUE),
        arrow(140, 47, 178, 74),
        arrow(140, 127, 178, 100),
        box(180, 60, 110, 54, "rows\nat points"),
        arrow(290, 87, 328, 87),
        box(330, 60, 110, 54, "System\nblocks M_j"),
        arrow(440, 87, 478, 87),
        box(480, 60, 110, 54, "Factors\nfiltered"),
        arrow(590, 87, 618, 87),
        box(620, 60, 130, 54, "Solution\na function u(x)", ORANGE),
        box(480, 180, 270, 54, "judged by another solution\nat points that neither has seen"),
        arrow(685, 114, 685, 178),
        label(300, 206, "not good enough: cut subdomains, add features", 12),
        f'<path d="M478 215 H75 V164" fill="none" stroke="{ORANGE}" stroke-width="1.6"/>',
        arrow(75, 170, 75, 156, ORANGE),
    )


def cell() -> str:
    """A cell with data that come in and go out over its faces."""
    x, y, side = 270, 60, 200
    parts = [
        f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{BLUE}" fill-opacity="0.15" '
        f'stroke="{BLUE}" stroke-width="2"/>',
        label(x + side / 2, y + 92, "a few hundred random", 13),
        label(x + side / 2, y + 110, "features, L u = f", 13),
    ]
    for near, far in ((x, x - 60), (x + side, x + side + 60)):
        parts += [
            arrow(far, y + 70, near, y + 70, ORANGE),
            arrow(near, y + 130, far, y + 130, BLUE),
        ]
    for near, far in ((y, y - 50), (y + side, y + side + 50)):
        parts += [
            arrow(x + 70, far, x + 70, near, ORANGE),
            arrow(x + 130, near, x + 130, far, BLUE),
        ]
    parts += [
        label(115, y + 75, "in: u' + κ u", 15, ORANGE),
        label(115, y + 135, "out: u' − κ u", 15, BLUE),
        label(640, y + 75, "the neighbour's answer", 13, ORANGE),
        label(640, y + 135, "the neighbour's data", 13, BLUE),
    ]
    return drawing(760, 320, *parts)


def merge_tree() -> str:
    """Sixteen cells, eight pairs, four, two, one."""
    parts, size = [], 120
    for level, (columns, rows) in enumerate(((4, 4), (2, 4), (2, 2), (1, 2), (1, 1))):
        x, y = 12 + 150 * level, 40
        for i in range(columns):
            for j in range(rows):
                w, h = size / columns, size / rows
                parts.append(
                    f'<rect x="{x + i * w + 1}" y="{y + j * h + 1}" width="{w - 2}" '
                    f'height="{h - 2}" rx="2" fill="{BLUE}" fill-opacity="0.15" stroke="{BLUE}"/>'
                )
        count = columns * rows
        parts.append(label(x + size / 2, 182, f"{count} map{'s' if count > 1 else ''}", 13))
        if level < 4:
            parts.append(arrow(x + size + 4, 88, x + 146, 88, BLUE))
            parts.append(arrow(x + 146, 112, x + size + 4, 112, ORANGE))
    parts += [
        label(380, 24, "up: maps are joined, what is exchanged is eliminated", 13, BLUE),
        label(380, 208, "down: data of the outer faces give those of the inner ones", 13, ORANGE),
    ]
    return drawing(760, 220, *parts)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for draw in (flow, cell, merge_tree):
        (FOLDER / f"{draw.__name__}.svg").write_text(draw())


if __name__ == "__main__":
    main()
