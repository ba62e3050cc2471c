"""Draws the diagrams of the documentation as SVG: `python docs/diagrams/draw.py NAME` prints one; docs/generated.txt lists them.

A diagram is columns of boxes and arrows between them, written as text in `stages.py`. One file serves light and dark
pages: boxes are filled and carry white text; arrows and words beside them are a grey that both backgrounds show.
"""

import dataclasses
import html
import sys

from stages import DIAGRAMS

COLOURS = {"from": "#57606a", "step": "#1f6feb", "data": "#9a5b00", "value": "#1a7f37", "time": "#8250df"}
GREY = "#7d8590"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
TITLE, BELOW, LINE, PAD = 13.5, 11.5, 15, 10  # px: two sizes of text, a line, the space around it
GAP_X, GAP_Y, MARGIN = 38, 14, 6


@dataclasses.dataclass
class Box:
    kind: str
    title: str
    below: list[str]
    x: float = 0
    y: float = 0
    w: float = 0
    h: float = 0

    def fit(self):
        if self.kind == "space":
            self.h = float(self.title)
            return
        self.w = 2 * PAD + max([8.2 * len(self.title), *(6.4 * len(line) for line in self.below)])
        self.h = 2 * PAD + LINE * (1 + len(self.below)) - 2

    def svg(self):
        middle, out = self.x + self.w / 2, []
        out.append(f'<rect x="{self.x:.1f}" y="{self.y:.1f}" width="{self.w:.1f}" height="{self.h:.1f}" rx="6" fill="{COLOURS[self.kind]}"/>')
        y = self.y + PAD + 11
        out.append(words(middle, y, self.title, TITLE, "#ffffff", "600"))
        out += [words(middle, y + LINE * (i + 1), line, BELOW, "#ffffff") for i, line in enumerate(self.below)]
        return out


def words(x, y, text, size, colour, weight="400"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="middle" fill="{colour}">{html.escape(text)}</text>'


def columns_of(text: str) -> list[list[Box]]:
    """Blank lines end columns; a line is `kind: title / below / below`, or `space: 20` for so many empty pixels."""
    columns = []
    for part in text.strip().split("\n\n"):
        column = []
        for line in part.strip().splitlines():
            kind, said = line.strip().split(": ", 1)
            title, *below = (word.strip() for word in said.split(" / "))
            column.append(Box(kind, title, below))
        columns.append(column)
    return columns


def place(columns: list[list[Box]]) -> tuple[float, float]:
    """Boxes of a column have one width and stand around the middle; returns the size of the whole."""
    for box in (b for column in columns for b in column):
        box.fit()
    height = max(sum(b.h for b in column) + GAP_Y * (len(column) - 1) for column in columns)
    x = float(MARGIN)
    for column in columns:
        width = max(b.w for b in column)
        free = height - sum(b.h for b in column)
        spaced = any(b.kind == "space" for b in column)
        gap = GAP_Y if spaced else max(GAP_Y, free / (len(column) + 1))
        y = MARGIN + (free - gap * (len(column) - 1)) / 2
        for box in column:
            box.x, box.y, box.w = x, y, width
            y += box.h + gap
        x += width + GAP_X
    return x - GAP_X + MARGIN, height + 2 * MARGIN


def arrow(a: Box, b: Box, label: str, dashed: bool, shift: float) -> list[str]:
    """From side to side; `shift` keeps arrows that meet at one side apart. Within a column: from below to above."""
    if a.x == b.x:
        first, second = (a, b) if a.y < b.y else (b, a)
        x = a.x + a.w / 2
        start, end = (x, first.y + first.h), (x, second.y)
        if first is b:
            start, end = end, start
        middle = (start[1] + end[1]) / 2
        path = f"M{start[0]:.1f},{start[1]:.1f} L{end[0]:.1f},{end[1]:.1f}"
        if label:  # the line stops for the words
            path = f"M{x:.1f},{start[1]:.1f} L{x:.1f},{middle - 8:.1f} M{x:.1f},{middle + 8:.1f} L{x:.1f},{end[1]:.1f}"
        at = (x, middle + 4)
    else:
        y1, y2 = a.y + a.h / 2, b.y + b.h / 2 + shift
        if a.y <= y2 <= a.y + a.h and abs(y1 - y2) < a.h / 2 - 4:
            y1 = y2  # straight where it can be
        x1, x2 = a.x + a.w, b.x
        bend = x2 - GAP_X / 2
        path = f"M{x1:.1f},{y1:.1f} H{bend - 8:.1f} C{bend:.1f},{y1:.1f} {bend:.1f},{y2:.1f} {bend + 8:.1f},{y2:.1f} H{x2:.1f}"
        if y1 == y2:
            path = f"M{x1:.1f},{y1:.1f} H{x2:.1f}"
        at = ((x1 + x2) / 2, min(y1, y2) - 5)
    dash = ' stroke-dasharray="4 4"' if dashed else ' marker-end="url(#tip)"'
    out = [f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="1.6"{dash}/>']
    return out + ([words(*at, label, BELOW, GREY)] if label else [])


def arrows_of(text: str, columns: list[list[Box]]) -> list[str]:
    """Lines `a > b`, `a & b > c > d: label`, `a -- b: label` (dashed, no tip)."""
    by_title = {b.title: b for column in columns for b in column}
    pairs = []
    for line in text.strip().splitlines():
        said, _, label = line.strip().partition(": ")
        dashed = " -- " in said
        sides = [side.strip() for side in said.split(" -- " if dashed else " > ")]
        for left, right in zip(sides, sides[1:]):
            starts, ends = ([by_title[name.strip()] for name in side.split(" & ")] for side in (left, right))
            pairs += [(a, b, label, dashed) for a in starts for b in ends]
    out = []
    for a, b, label, dashed in pairs:
        meeting = sorted((p for p in pairs if p[1] is b and p[0].x != b.x), key=lambda p: p[0].y + p[0].h / 2)
        place_of = next((i for i, p in enumerate(meeting) if p[0] is a), 0)
        shift = (place_of - (len(meeting) - 1) / 2) * min(8, (b.h - 8) / max(1, len(meeting)))
        out += arrow(a, b, label, dashed, shift)
    return out


def draw(name: str) -> str:
    says, boxes, arrows = DIAGRAMS[name]
    columns = columns_of(boxes)
    width, height = place(columns)
    body = arrows_of(arrows, columns) + [line for column in columns for box in column if box.kind != "space" for line in box.svg()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="{FONT}" role="img"><title>{html.escape(says)}</title>'
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{GREY}"/></marker></defs>'
    )
    return "\n".join([head, *body, "</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in DIAGRAMS:
        print(draw(sys.argv[1]), end="")
    else:
        sys.exit(f"usage: draw.py NAME, one of {', '.join(DIAGRAMS)}")
