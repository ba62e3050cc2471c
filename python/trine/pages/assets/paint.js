// A track as one line of pixels, copied down to its height: the cost of a frame does not grow with how tall a track is, and
// a rectangle costs a few writes. Colours are packed once per theme.

import { token } from "./chart.js";

const SHADES = 4, STEPS = 16;
const KINDS = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma", "collective", "host", "semaphore", "other"];

function rgb(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

const pack = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
const mix = (a, b, share) => a.map((x, i) => Math.round(x + (b[i] - x) * share));

// {kind: Uint32Array of SHADES * STEPS}, and the page's own colours.
export function palette() {
  const paper = rgb(token("--paper")), panel = rgb(token("--panel")), line = rgb(token("--line"));
  const out = { paper: pack(paper), panel: pack(panel), line: pack(line) };
  for (const kind of KINDS) {
    const colours = new Uint32Array(SHADES * STEPS), base = rgb(token(`--${kind}`));
    for (let s = 0; s < SHADES; s++)
      for (let b = 0; b < STEPS; b++) colours[s * STEPS + b] = pack(mix(paper, mix(base, paper, s * 0.11), 0.25 + (0.75 * b) / (STEPS - 1)));
    out[kind] = colours;
  }
  return out;
}

export function kindOf(track) {
  if (track.kind === "engine") {
    const name = track.name.toLowerCase();
    return KINDS.find((k) => name.includes(k)) || (name === "pe" ? "tensor" : name === "pool" ? "gpsimd" : name === "act" ? "scalar" : name === "sp" ? "sync" : "other");
  }
  if (track.kind === "transfer") return "dma";
  return KINDS.includes(track.kind) ? track.kind : "other";
}

// Writes the rows that touch [t0, t0 + width * nsPerPixel) into line[from, to).
export function drawRows(line, from, to, rows, t0, nsPerPixel, colours, gap) {
  const { begin, end, busy, name } = rows;
  const first = t0 + from * nsPerPixel, last = t0 + to * nsPerPixel, k = 1 / nsPerPixel;
  let low = 0, high = rows.rows;
  while (low < high) { const m = (low + high) >> 1; if (end[m] < first) low = m + 1; else high = m; }
  for (let i = low; i < rows.rows && begin[i] < last; i++) {
    let a = Math.floor((begin[i] - t0) * k), b = Math.ceil((end[i] - t0) * k);
    const wide = b - a;
    if (a < from) a = from;
    if (b > to) b = to;
    if (b <= a) b = a + 1;
    const colour = colours[(name[i] & (SHADES - 1)) * STEPS + Math.round(Math.max(0, Math.min(1, busy[i])) * (STEPS - 1))];
    if (wide > 3) {
      line.fill(colour, a, b);
      if (a > from || begin[i] >= first) line[a] = gap;
    } else for (let x = a; x < b && x < to; x++) line[x] = colour;
  }
}

// Copies the line `height` times into the picture from row y on.
export function copyDown(pixels, width, y, height, line, most) {
  const top = Math.max(0, y), bottom = Math.min(most, y + height);
  if (bottom <= top) return;
  pixels.set(line, top * width);
  for (let row = top + 1; row < bottom; row++) pixels.copyWithin(row * width, top * width, top * width + width);
}

// The row under an instant, or null: the one that contains it, else one closer than `near`.
export function rowAt(rows, ns, near) {
  let low = 0, high = rows.rows;
  while (low < high) { const m = (low + high) >> 1; if (rows.begin[m] <= ns) low = m + 1; else high = m; }
  let best = -1, distance = near;
  for (let i = Math.max(0, low - 3); i < Math.min(rows.rows, low + 2); i++) {
    const d = ns < rows.begin[i] ? rows.begin[i] - ns : ns > rows.end[i] ? ns - rows.end[i] : 0;
    if (d <= distance) { best = i; distance = d; if (d === 0 && i === low - 1) break; }
  }
  return best < 0 ? null : best;
}
