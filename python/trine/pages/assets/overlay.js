// What lies over the tracks: the ruler, labels, the chosen event with its arrows, the critical path, a measured range.

import { clip, time } from "./format.js";
import { token } from "./chart.js";

// Round steps of time, at least `least` apart.
export function stepOf(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((m) => m * power >= least * 0.999);
}

export function ruler(g, view, width, gutter, height) {
  const step = stepOf(view.nsPerPixel * 120);
  g.strokeStyle = token("--line");
  g.fillStyle = token("--faint");
  g.textAlign = "left";
  // Far in, ticks count from a round instant, which stands at the left: 1.2 s + 5 µs.
  const far = view.end / step > 5000, base = far ? Math.floor(view.begin / (step * 100)) * step * 100 : view.origin;
  for (let t = Math.ceil(view.begin / step) * step; t < view.end; t += step) {
    const x = gutter + (t - view.begin) / view.nsPerPixel;
    g.beginPath(); g.moveTo(x + 0.5, 4); g.lineTo(x + 0.5, 22); g.stroke();
    g.fillText((far ? "+" : "") + time(t - base, 4), x + 4, 15);
  }
  return far ? time(base - view.origin, 12) : "";
}

export function label(g, text, x, wide) {
  const most = Math.floor((wide - 8) / 6.3);
  if (most < 3) return false;
  g.fillText(clip(text, most), x + 4, 0);
  return true;
}

const middle = (row) => row.y + row.height / 2;

// An arrow from the end of one event to the begin of another, a curve that reads left to right.
function arrow(g, x0, y0, x1, y1) {
  const bend = Math.max(18, Math.min(80, Math.abs(x1 - x0) / 2));
  g.beginPath(); g.moveTo(x0, y0); g.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1); g.stroke();
  g.beginPath(); g.moveTo(x1, y1); g.lineTo(x1 - 6, y1 - 3.5); g.lineTo(x1 - 6, y1 + 3.5); g.closePath(); g.fill();
}

export function arrows(g, chosen, near, placeOf, xOf, colours) {
  const at = placeOf(chosen.track);
  if (!at) return 0;
  let drawn = 0;
  for (const [list, colour, into] of [[near.before, colours.before, true], [near.after, colours.after, false]]) {
    g.strokeStyle = g.fillStyle = colour;
    g.lineWidth = 1.5;
    for (const other of list) {
      const row = placeOf(other.track);
      if (!row) continue;
      if (into) arrow(g, xOf(other.end_ns), middle(row), xOf(chosen.begin_ns), middle(at));
      else arrow(g, xOf(chosen.end_ns), middle(at), xOf(other.begin_ns), middle(row));
      drawn++;
    }
  }
  return drawn;
}

export function criticalPath(g, events, placeOf, xOf, colour, visible) {
  g.strokeStyle = colour;
  g.lineWidth = 2;
  let last = null, drawn = 0;
  for (const e of events) {
    const row = placeOf(e.track);
    if (!row) { last = null; continue; }
    const x0 = xOf(e.begin_ns), x1 = Math.max(x0 + 1.5, xOf(e.end_ns));
    if (x1 > visible[0] - 50 && x0 < visible[1] + 50) {
      g.strokeRect(x0, row.y + 2, x1 - x0, row.height - 4);
      if (last) { g.beginPath(); g.moveTo(last[0], last[1]); g.lineTo(x0, middle(row)); g.stroke(); }
      drawn++;
    }
    last = [x1, middle(row)];
  }
  return drawn;
}

export function range(g, a, b, height, text) {
  const [x0, x1] = a < b ? [a, b] : [b, a];
  g.fillStyle = token("--second");
  g.globalAlpha = 0.14;
  g.fillRect(x0, 22, x1 - x0, height);
  g.globalAlpha = 1;
  g.fillStyle = token("--ink");
  g.textAlign = "center";
  g.fillText(text, (x0 + x1) / 2, 36);
  g.textAlign = "left";
}
