// Events by level of detail: level L cuts the profile's time into 2^L tiles of COLUMNS columns. Tiles are asked for by track,
// a few hundred are kept, and while one is on its way a coarser one stands in for it.

import { binary, inFile, json } from "./data.js";

export const COLUMNS = 512;
const MOST_ROWS = 4_000_000; // rows kept, about 36 bytes each
const AT_ONCE = 4;

export function decode(buffer) {
  const view = new DataView(buffer);
  const tracks = new Map();
  let at = 8;
  for (let i = view.getUint32(4, true); i > 0; i--) {
    const id = view.getUint32(at, true), rows = view.getUint32(at + 4, true);
    at += 8;
    const column = (Kind, bytes) => { const out = new Kind(buffer, at, rows); at += bytes * rows; return out; };
    const begin = column(Float64Array, 8), end = column(Float64Array, 8), event = column(Float64Array, 8), count = column(Float64Array, 8);
    const name = column(Int32Array, 4), busy = column(Float32Array, 4);
    tracks.set(id, { rows, begin, end, event, name, count, busy });
  }
  return tracks;
}

export class Tiles {
  constructor({ begin_ns, end_ns, levels, stored_levels }, changed, path = "/api/tile") {
    this.path = path;
    this.begin = begin_ns;
    this.span = Math.max(1, end_ns - begin_ns);
    this.levels = inFile ? stored_levels : levels;
    this.changed = changed;
    this.held = new Map(); // "level/index" -> Map(track -> rows)
    this.used = new Map(); // "level/index" -> when last drawn
    this.asked = new Set();
    this.queue = [];
    this.active = 0;
    this.rows = 0;
    this.clock = 0;
    this.missing = new Set();
  }

  level(nsPerPixel) {
    const wanted = Math.ceil(Math.log2(this.span / (COLUMNS * nsPerPixel)));
    return Math.max(0, Math.min(this.levels - 1, wanted));
  }

  tileNs(level) { return this.span / 2 ** level; }

  index(level, ns) {
    return Math.max(0, Math.min(2 ** level - 1, Math.floor((ns - this.begin) / this.tileNs(level))));
  }

  // The best there is of a track in a tile: the tile's own rows, or those of a tile above it.
  find(track, level, index) {
    for (let l = level, i = index; l >= 0; l--, i = Math.floor(i / 2)) {
      const key = `${l}/${i}`, tile = this.held.get(key);
      if (tile?.has(track)) {
        this.used.set(key, this.clock);
        return tile.get(track);
      }
    }
    return null;
  }

  has(track, level, index) { return this.held.get(`${level}/${index}`)?.has(track) || this.missing.has(`${level}/${index}`); }

  // Wants the tracks of the tiles first..last of a level; those asked for earlier and not yet sent are dropped.
  want(tracks, level, first, last) {
    this.clock++;
    this.queue.length = 0;
    for (const [l, a, b] of [[0, 0, 0], [level, first, last]]) {
      for (let i = a; i <= b; i++) {
        const lacking = tracks.filter((t) => !this.has(t, l, i) && !this.asked.has(`${l}/${i}/${t}`));
        for (let k = 0; k < lacking.length; k += 200) this.queue.push({ level: l, index: i, tracks: lacking.slice(k, k + 200) });
      }
    }
    this.pump();
  }

  pump() {
    while (this.active < AT_ONCE && this.queue.length) this.fetch(this.queue.shift());
  }

  async fetch({ level, index, tracks }) {
    const key = `${level}/${index}`;
    for (const t of tracks) this.asked.add(`${key}/${t}`);
    this.active++;
    try {
      const path = `${this.path}?level=${level}&index=${index}` + (inFile ? "" : `&tracks=${tracks.join(",")}`);
      this.keep(key, tracks, decode(await binary(path)));
    } catch (error) {
      this.missing.add(key);
      if (!inFile) this.failed = error;
    } finally {
      for (const t of tracks) this.asked.delete(`${key}/${t}`);
      this.active--;
      this.pump();
      this.changed();
    }
  }

  keep(key, tracks, found) {
    const tile = this.held.get(key) || new Map();
    this.held.set(key, tile);
    this.used.set(key, this.clock);
    for (const t of tracks) {
      const rows = found.get(t) || { rows: 0, begin: [], end: [], event: [], name: [], count: [], busy: [] };
      if (!tile.has(t)) this.rows += rows.rows;
      tile.set(t, rows);
    }
    if (this.rows > MOST_ROWS) this.forget();
  }

  forget() {
    const oldest = [...this.used.keys()].filter((k) => !k.startsWith("0/")).sort((a, b) => this.used.get(a) - this.used.get(b));
    for (const key of oldest) {
      if (this.rows < MOST_ROWS / 2) break;
      for (const rows of this.held.get(key).values()) this.rows -= rows.rows;
      this.held.delete(key);
      this.used.delete(key);
    }
  }

  idle() { return this.active === 0 && this.queue.length === 0; }
}

export const names = () => json("/api/names");
