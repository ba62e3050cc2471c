"""Small charts as SVG: axes from zero with ticks and units, a legend, colours that a dark page turns.

Numbers are given as they are; a chart knows where on the page they lie. Text is escaped here.
"""

import html
import math

STYLE = """<style>text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px;fill:#1f2328}.faint{fill:#656d76}.title{font-size:15px;
font-weight:600}.paper{fill:#fff}.grid{stroke:#e4e7eb}.axis{stroke:#656d76}.line{fill:none;stroke-width:2}.first{fill:#0072b2;stroke:#0072b2}.second{fill:#e69f00;
stroke:#e69f00}.ink{stroke:#1f2328;fill:none;stroke-width:1.5}text.first,text.second{stroke:none}polyline.first,polyline.second{fill:none}
@media screen and (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.paper{fill:#15181c}.grid{stroke:#2b3138}.axis{stroke:#9198a1}.ink{stroke:#e6edf3}}</style>"""


def ticks(most, count=5):
    """Round numbers from zero to the first that is not below `most`."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


class Chart:
    """A page of `width` by `height` with a plot inside; parts are added as they come."""

    def __init__(self, title, width, height, left, top, right=24, bottom=48):
        self.parts, self.width, self.height = [], width, height
        self.left, self.top, self.wide, self.high = left, top, width - left - right, height - top - bottom
        self.text(16, 24, title, "title")

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def shape(self, kind, name, **where):
        self.parts.append(f'<{name} class="{kind}" ' + " ".join(f'{k}="{v:.1f}"' for k, v in where.items()) + "/>")

    def across(self, most, unit):
        """The axis below the plot: numbers from zero, with their unit. Gives the function from a number to its place."""
        marks = ticks(most)
        bottom = self.top + self.high

        def place(value):
            return self.left + self.wide * value / marks[-1]

        for m in marks:
            self.shape("axis" if m == 0 else "grid", "line", x1=place(m), x2=place(m), y1=self.top, y2=bottom)
            self.text(place(m), bottom + 16, f"{m:.4g}", "faint", "middle")
        self.text(self.left + self.wide / 2, bottom + 36, unit, "faint", "middle")
        return place

    def up(self, most, unit):
        """The axis left of the plot, from zero at its foot."""
        marks = ticks(most)

        def place(value):
            return self.top + self.high * (1 - value / marks[-1])

        for m in marks:
            self.shape("axis" if m == 0 else "grid", "line", x1=self.left, x2=self.left + self.wide, y1=place(m), y2=place(m))
            self.text(self.left - 8, place(m) + 4, f"{m:.4g}", "faint", "end")
        self.text(self.left - 8, self.top - 10, unit, "faint", "end")
        return place

    def legend(self, x, y, entries):
        """[(colour's name, words)] in a row; "ink" is a line with ends."""
        for kind, words in entries:
            if kind == "ink":
                self.whisker(x, x + 22, y - 4)
            else:
                self.shape(kind, "rect", x=x, y=y - 10, width=22, height=11)
            self.text(x + 28, y, words, "faint")
            x += 46 + 6.4 * len(words)

    def whisker(self, low, high, y):
        for x1, x2, y1, y2 in ((low, high, y, y), (low, low, y - 4, y + 4), (high, high, y - 4, y + 4)):
            self.shape("ink", "line", x1=x1, x2=x2, y1=y1, y2=y2)

    def curve(self, kind, points, dashed=False):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<polyline class="line {kind}" points="{places}"{dashes}/>')

    def svg(self):
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', STYLE, '<rect class="paper" width="100%" height="100%"/>', *self.parts, "</svg>\n"])
