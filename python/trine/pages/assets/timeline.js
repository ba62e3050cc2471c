// The timeline: tracks against time, any number of events. It asks for what is on the screen (tiles.js), paints lines of
// pixels (paint.js), and lays arrows, path and labels over them (overlay.js). Every frame is drawn from what is at hand.

import { h, replace } from "./dom.js";
import { json } from "./data.js";
import { clip, count, percent, time } from "./format.js";
import { token } from "./chart.js";
import { Tiles, names } from "./tiles.js";
import { copyDown, drawRows, kindOf, palette, rowAt } from "./paint.js";
import { foldedAtFirst, groupsOf, rowsOf } from "./layout.js";
import * as overlay from "./overlay.js";

// Where a timeline asks: the chip's clock, or this machine's, which has no critical path.
export const CHIP = { tile: "/api/tile", event: "/api/event", path: "/api/path" };
export const HOST = { tile: "/api/host/tile", event: "/api/host/event", path: null };
const GUTTER = 178, RULER = 24, OVERVIEW = 40;

export class Timeline {
  constructor({ info, calls = CHIP, parameters = {}, moved, chose }) {
    const tracks = info.tracks;
    this.info = info;
    this.calls = calls;
    this.origin = info.begin_ns;
    this.groups = groupsOf(tracks);
    this.tracks = new Map(tracks.map((t) => [t.id, { ...t, colour: kindOf(t) }]));
    this.folded = foldedAtFirst(this.groups);
    this.layout = rowsOf(this.groups, this.folded);
    this.tiles = new Tiles(info, () => this.draw(), calls.tile);
    this.begin = this.clampNs(Number(parameters.begin ?? info.begin_ns));
    this.end = this.clampNs(Number(parameters.end ?? info.end_ns));
    if (!(this.end > this.begin)) [this.begin, this.end] = [info.begin_ns, info.end_ns];
    this.scroll = 0;
    this.labels = [];
    this.moved = moved;
    this.chose = chose;
    this.frames = { count: 0, worst: 0, last: 0 };
    this.tip = h("div", { class: "timeline-tip", hidden: true });
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "timeline: arrows or w a s d move and zoom, Enter opens an event" });
    this.element = h("div", { class: "timeline-canvas" }, this.canvas, this.tip);
    this.g = this.canvas.getContext("2d", { alpha: false });
    this.sized = new ResizeObserver(() => this.resize());
    this.sized.observe(this.element);
    this.dark = new MutationObserver(() => { this.colours = null; this.draw(); });
    this.dark.observe(document.documentElement, { attributes: true });
    this.listen();
    names().then((list) => { this.labels = list; this.draw(); }, () => {});
  }

  dispose() { this.sized.disconnect(); this.dark.disconnect(); this.gone = true; }

  clampNs(ns) { return Math.max(this.info.begin_ns, Math.min(this.info.end_ns, Number.isFinite(ns) ? ns : this.info.begin_ns)); }

  get nsPerPixel() { return (this.end - this.begin) / Math.max(1, this.width - GUTTER); }
  xOf = (ns) => GUTTER + (ns - this.begin) / this.nsPerPixel;
  nsOf = (x) => this.begin + (x - GUTTER) * this.nsPerPixel;
  top = RULER + OVERVIEW;

  resize() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.width = this.element.clientWidth;
    this.height = this.element.clientHeight;
    if (!this.width || !this.height) return;
    this.ratio = ratio;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.picture = null;
    this.draw();
  }

  draw() {
    if (this.pending || this.gone) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      if (!this.width || !this.canvas.isConnected) return;
      const at = performance.now();
      this.frame();
      this.frames.last = performance.now() - at;
      this.frames.worst = Math.max(this.frames.worst, this.frames.last);
      this.frames.count++;
    });
  }

  // Rows on the screen, with y from the canvas's top.
  visible() {
    const out = [];
    for (const row of this.layout.rows) {
      const y = row.y - this.scroll + this.top;
      if (y + row.height > this.top && y < this.height) out.push({ ...row, y });
    }
    return out;
  }

  tracksIn(rows) {
    return [...new Set(rows.flatMap((r) => (r.hinted ? r.hinted.slice(0, 16) : r.track ? [r.track] : [])).map((t) => t.id))];
  }

  overviewTracks() { return (this.groups[0]?.kinds || []).filter((k) => k.kind !== "semaphore").flatMap((k) => k.tracks).slice(0, 9); }

  frame() {
    this.colours ||= palette();
    const g = this.g, rows = this.visible(), per = this.nsPerPixel / this.ratio;
    const level = this.tiles.level(per), first = this.tiles.index(level, this.begin), last = this.tiles.index(level, this.end);
    this.tiles.want([...new Set([...this.tracksIn(rows), ...this.overviewTracks().map((t) => t.id)])], level, first, last);
    g.setTransform(1, 0, 0, 1, 0, 0);
    this.paint(rows, level, first, last, per);
    g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    g.font = "12px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
    g.textBaseline = "alphabetic";
    this.words(rows, level, first, last);
    this.frameOver(rows);
    this.moved?.(this);
  }

  paint(rows, level, first, last, per) {
    const W = this.canvas.width - Math.round(GUTTER * this.ratio), H = this.canvas.height;
    if (!this.picture || this.picture.width !== W || this.picture.height !== H) {
      this.picture = new ImageData(W, H);
      this.pixels = new Uint32Array(this.picture.data.buffer);
      this.line = new Uint32Array(W);
    }
    this.pixels.fill(this.colours.paper);
    const step = this.tiles.tileNs(level), from = this.begin;
    const put = (ids, y, height) => {
      this.line.fill(this.colours.paper);
      for (const id of ids) {
        const colours = this.colours[this.tracks.get(id).colour];
        for (let i = first; i <= last; i++) {
          const held = this.tiles.find(id, level, i);
          if (!held) continue;
          const a = Math.max(0, Math.round((this.tiles.begin + i * step - from) / per)), b = Math.min(W, Math.round((this.tiles.begin + (i + 1) * step - from) / per));
          if (b > a) drawRows(this.line, a, b, held, from, per, colours, this.colours.paper);
        }
      }
      copyDown(this.pixels, W, y, height, this.line, H);
    };
    for (const r of rows) {
      if (!r.track) continue;
      const ids = r.hinted ? r.hinted.slice(0, 16).map((t) => t.id) : [r.track.id], thin = r.head ? 7 : 2;
      put(ids, Math.round((r.y + thin) * this.ratio), Math.round((r.height - 2 * thin) * this.ratio));
    }
    this.clear(W, 0, Math.round(this.top * this.ratio));
    this.paintOverview(W);
    this.g.fillStyle = token("--paper");
    this.g.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.g.putImageData(this.picture, Math.round(GUTTER * this.ratio), 0);
  }

  clear(W, y0, y1) { this.pixels.fill(this.colours.paper, y0 * W, y1 * W); }

  // All of the time in a strip: each track of the first core a few pixels high.
  paintOverview(W) {
    const list = this.overviewTracks(), high = Math.max(2, Math.floor(((OVERVIEW - 6) * this.ratio) / Math.max(1, list.length)));
    list.forEach((t, n) => {
      const held = this.tiles.find(t.id, 0, 0);
      this.line.fill(this.colours.paper);
      if (held) drawRows(this.line, 0, W, held, this.tiles.begin, this.tiles.span / W, this.colours[this.tracks.get(t.id).colour], this.colours.paper);
      copyDown(this.pixels, W, Math.round(2 * this.ratio) + n * high, high, this.line, this.picture.height);
    });
  }

  words(rows, level, first, last) {
    const g = this.g;
    for (const r of rows) {
      if (r.head) {
        g.fillStyle = token("--panel");
        g.fillRect(0, r.y, r.track ? GUTTER : this.width, r.height);
      }
      g.fillStyle = token(r.head && !r.inner ? "--ink" : "--faint");
      g.textAlign = "left";
      g.fillText((r.head ? (r.folded ? "▸ " : "▾ ") : "") + clip(r.title, 24), r.head && !r.inner ? 8 : 18, r.y + r.height / 2 + 4.5);
    }
    g.save();
    g.beginPath(); g.rect(GUTTER, this.top, this.width - GUTTER, this.height - this.top); g.clip();
    g.fillStyle = token("--paper");
    for (const r of rows) if (r.track && !r.head) this.wordsOf(r, level, first, last);
    g.restore();
    g.fillStyle = token("--paper");
    g.fillRect(0, 0, GUTTER, this.top);
  }

  wordsOf(row, level, first, last) {
    let done = -1;
    for (let i = first; i <= last; i++) {
      const held = this.tiles.find(row.track.id, level, i);
      if (!held || (this.end - this.begin) / Math.max(1, held.rows) < 0) continue;
      const from = this.tiles.begin + i * this.tiles.tileNs(level);
      for (let k = 0; k < held.rows; k++) {
        if (held.end[k] < this.begin || held.event[k] < 0) continue;
        if (held.begin[k] > this.end) break;
        if (held.event[k] === done || (held.end[k] - held.begin[k]) / this.nsPerPixel < 28 || held.end[k] < from) continue;
        const x0 = Math.max(GUTTER, this.xOf(held.begin[k])), x1 = Math.min(this.width, this.xOf(held.end[k]));
        this.g.save();
        this.g.translate(0, row.y + row.height / 2 + 4.5);
        overlay.label(this.g, this.labelOf(row.track, held, k), x0, x1 - x0);
        this.g.restore();
        done = held.event[k];
      }
    }
  }

  // A semaphore's row says what it holds, any other is named.
  labelOf(track, held, i) { return track.kind === "semaphore" ? `= ${held.name[i]}` : this.labels[held.name[i]] ?? ""; }

  frameOver(rows) {
    const g = this.g, at = new Map(rows.filter((r) => r.track && !r.head).map((r) => [r.track.id, r])), placeOf = (id) => at.get(id) || this.beyond(id);
    g.save();
    g.beginPath(); g.rect(GUTTER, 0, this.width - GUTTER, this.height); g.clip();
    const a = GUTTER + ((this.begin - this.info.begin_ns) / this.tiles.span) * (this.width - GUTTER), b = GUTTER + ((this.end - this.info.begin_ns) / this.tiles.span) * (this.width - GUTTER);
    g.strokeStyle = token("--ink");
    g.lineWidth = 1;
    g.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), OVERVIEW - 2);
    g.translate(0, OVERVIEW);
    const base = overlay.ruler(g, { begin: this.begin, end: this.end, nsPerPixel: this.nsPerPixel, origin: this.origin }, this.width, GUTTER, this.height);
    g.translate(0, -OVERVIEW);
    if (base) this.baseWords(base);
    g.beginPath(); g.rect(GUTTER, this.top, this.width - GUTTER, this.height - this.top); g.clip();
    if (this.path) this.pathDrawn = overlay.criticalPath(g, this.path, placeOf, this.xOf, token("--bad"), [GUTTER, this.width]);
    if (this.chosen) this.drawChosen(placeOf);
    if (this.measured) overlay.range(g, this.xOf(this.measured[0]), this.xOf(this.measured[1]), this.height, time(Math.abs(this.measured[1] - this.measured[0])));
    g.restore();
  }

  // What the ruler's ticks are counted from, beside it.
  baseWords(text) {
    const g = this.g;
    g.restore();
    g.fillStyle = token("--faint");
    g.textAlign = "right";
    g.fillText(text, GUTTER - 8, OVERVIEW + 15);
    g.textAlign = "left";
    g.save();
  }

  // A row that is folded or out of sight still has a direction for arrows.
  beyond(id) {
    const row = this.layout.rows.find((r) => r.track?.id === id || r.hinted?.some((t) => t.id === id));
    return row ? { y: row.y - this.scroll + this.top, height: row.height } : null;
  }

  drawChosen(placeOf) {
    const e = this.chosen.event, row = placeOf(e.track);
    if (!row) return;
    this.arrowsDrawn = overlay.arrows(this.g, e, this.chosen.near, placeOf, this.xOf, { before: token("--fifth"), after: token("--third") });
    this.g.strokeStyle = token("--ink");
    this.g.lineWidth = 2;
    const x = this.xOf(e.begin_ns);
    this.g.strokeRect(x, row.y + 1, Math.max(2, this.xOf(e.end_ns) - x), row.height - 2);
  }

  // -- moving ------------------------------------------------------------------------------------------------------
  show(begin, end) {
    const least = Math.max(4, this.tiles.span * 1e-12);
    const span = Math.max(least, Math.min(this.tiles.span, end - begin));
    const from = Math.max(this.info.begin_ns, Math.min(this.info.end_ns - span, begin));
    [this.begin, this.end] = [from, from + span];
    this.draw();
  }

  pan(share) { const d = (this.end - this.begin) * share; this.show(this.begin + d, this.end + d); }

  zoom(factor, x = (GUTTER + this.width) / 2) {
    const ns = this.nsOf(Math.max(GUTTER, x)), share = (ns - this.begin) / (this.end - this.begin), span = (this.end - this.begin) * factor;
    this.show(ns - share * span, ns - share * span + span);
  }

  scrollBy(pixels) {
    this.scroll = Math.max(0, Math.min(Math.max(0, this.layout.height - (this.height - this.top)), this.scroll + pixels));
    this.draw();
  }

  fold(key) {
    if (this.folded.has(key)) this.folded.delete(key); else this.folded.add(key);
    this.layout = rowsOf(this.groups, this.folded);
    this.scrollBy(0);
  }

  unfoldTrack(id) {
    for (const g of this.groups) for (const k of g.kinds) if (k.tracks.some((t) => t.id === id)) { this.folded.delete(g.key); this.folded.delete(k.key); }
    this.layout = rowsOf(this.groups, this.folded);
    const row = this.layout.rows.find((r) => r.track?.id === id);
    if (row && (row.y < this.scroll || row.y + row.height > this.scroll + this.height - this.top)) this.scroll = Math.max(0, row.y - 80);
    this.draw();
  }

  // -- choosing ----------------------------------------------------------------------------------------------------
  hit(x, y) {
    const row = this.visible().find((r) => y >= r.y && y < r.y + r.height);
    if (!row || y < this.top) return null;
    if (x < GUTTER || !row.track || row.hinted) return { row };
    const per = this.nsPerPixel / this.ratio, level = this.tiles.level(per), ns = this.nsOf(x);
    const held = this.tiles.find(row.track.id, level, this.tiles.index(level, ns));
    const i = held ? rowAt(held, ns, 3 * this.nsPerPixel) : null;
    return { row, held, i };
  }

  async choose(id, { move = false } = {}) {
    const found = await json(`${this.calls.event}?id=${id}`);
    this.chosen = found;
    const e = found.event;
    this.unfoldTrack(e.track);
    const long = Math.max(1, e.end_ns - e.begin_ns);
    if (move || e.end_ns < this.begin || e.begin_ns > this.end) this.show(e.begin_ns - 6 * long, e.end_ns + 6 * long);
    this.draw();
    this.chose?.(found);
  }

  clearChosen() { this.chosen = this.measured = null; this.chose?.(null); this.draw(); }

  async togglePath() {
    if (this.path || !this.calls.path) { this.path = null; this.draw(); return; }
    this.path = await json(`${this.calls.path}?begin=${Math.floor(this.begin)}&end=${Math.ceil(this.end)}`, { fresh: true });
    this.draw();
  }

  hover(e) {
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top, found = this.hit(x, y);
    this.canvas.style.cursor = found?.row.head || (found && found.i !== null && found.i !== undefined) ? "pointer" : "default";
    if (!found || found.i === null || found.i === undefined) { this.tip.hidden = true; return; }
    const { held, i } = found, merged = held.event[i] < 0;
    replace(this.tip, h("div", {}, merged ? `${count(held.count[i])} events, ${percent(held.busy[i])} busy` : this.labelOf(found.row.track, held, i)),
      h("div", { class: "faint" }, `${time(held.end[i] - held.begin[i])} at ${time(held.begin[i] - this.origin, 6)}${merged ? " · zoom in to see each" : ""}`));
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(x + 14, this.width - this.tip.offsetWidth - 6)}px`;
    this.tip.style.top = `${Math.min(y + 16, this.height - this.tip.offsetHeight - 4)}px`;
  }

  click(x, y) {
    if (y < OVERVIEW && x > GUTTER) {
      const middle = this.info.begin_ns + ((x - GUTTER) / (this.width - GUTTER)) * this.tiles.span, half = (this.end - this.begin) / 2;
      return this.show(middle - half, middle + half);
    }
    const found = this.hit(x, y);
    if (!found) return this.clearChosen();
    if (found.row.head && (x < GUTTER || !found.held)) return this.fold(found.row.key);
    if (found.i === null || found.i === undefined) return this.clearChosen();
    if (found.held.event[found.i] >= 0) return this.choose(found.held.event[found.i]).catch((e) => this.refused?.(e));
    const a = found.held.begin[found.i], b = found.held.end[found.i];
    return this.show(a - (b - a) * 4, b + (b - a) * 4);
  }

  listen() {
    const c = this.canvas;
    let down = null;
    c.addEventListener("wheel", (e) => {
      e.preventDefault();
      const x = e.clientX - c.getBoundingClientRect().left;
      if (e.ctrlKey || e.metaKey) this.zoom(2 ** (e.deltaY / 180), x);
      else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan((e.shiftKey ? e.deltaY : e.deltaX) / this.width);
      else this.scrollBy(e.deltaY);
    }, { passive: false });
    c.addEventListener("pointerdown", (e) => {
      const box = c.getBoundingClientRect();
      down = { x: e.clientX - box.left, y: e.clientY - box.top, begin: this.begin, end: this.end, scroll: this.scroll, moved: false, range: e.shiftKey };
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener("pointermove", (e) => {
      if (!down) return this.hover(e);
      const box = c.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
      if (Math.abs(x - down.x) + Math.abs(y - down.y) > 4) down.moved = true;
      if (!down.moved) return;
      this.tip.hidden = true;
      if (down.range) { this.measured = [this.nsOf(down.x), this.nsOf(x)]; return this.draw(); }
      const per = (down.end - down.begin) / (this.width - GUTTER);
      this.scroll = down.scroll;
      this.scrollBy(down.y - y);
      this.show(down.begin + (down.x - x) * per, down.end + (down.x - x) * per);
    });
    c.addEventListener("pointerup", () => { if (down && !down.moved) this.click(down.x, down.y); down = null; });
    c.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    c.addEventListener("dblclick", (e) => {
      if (this.measured) { const [a, b] = this.measured.slice().sort((p, q) => p - q); this.measured = null; return this.show(a, b); }
      this.zoom(0.25, e.clientX - c.getBoundingClientRect().left);
    });
    c.addEventListener("keydown", (e) => this.key(e));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const acts = { a: () => this.pan(-0.2), ArrowLeft: () => this.pan(-0.2), d: () => this.pan(0.2), ArrowRight: () => this.pan(0.2), w: () => this.zoom(0.6), "+": () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), "-": () => this.zoom(1 / 0.6),
      ArrowUp: () => this.scrollBy(-60), ArrowDown: () => this.scrollBy(60), f: () => this.fit(), c: () => this.togglePath().catch(() => {}), Escape: () => this.clearChosen(), Home: () => this.show(this.info.begin_ns, this.info.end_ns) };
    if (!acts[e.key]) return;
    e.preventDefault();
    e.stopPropagation();
    acts[e.key]();
  }

  fit() {
    if (!this.chosen) return this.show(this.info.begin_ns, this.info.end_ns);
    const { begin_ns, end_ns } = this.chosen.event, long = Math.max(1, end_ns - begin_ns);
    this.show(begin_ns - 3 * long, end_ns + 3 * long);
  }
}
