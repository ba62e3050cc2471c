// Which rows a timeline has: a head for each core of each rank, its engines, and its queues and semaphores folded.

export const TRACK = 19, HEAD = 22;
const FOLDED = new Set(["semaphore", "dma"]);
const WORDS = { dma: "DMA queues", semaphore: "semaphores", collective: "collectives", engine: "engines", host: "host" };
const ORDER = ["host", "transfer", "gap", "engine", "dma", "collective", "semaphore", "memory"];

function headOf(t, many) {
  const parts = [];
  if (many && t.rank !== null && t.rank !== undefined) parts.push(`rank ${t.rank}`);
  if (t.core !== null && t.core !== undefined && t.core >= 0) parts.push(`core ${t.core}`);
  return parts.join(" · ") || "host";
}

// [{key, title, kinds: [{kind, key, tracks}]}], in the order of ranks and cores.
export function groupsOf(tracks) {
  const many = new Set(tracks.map((t) => t.rank)).size > 1;
  const groups = new Map();
  for (const t of tracks) {
    if (t.kind === "memory") continue;
    const key = `${t.rank ?? 0}.${t.core ?? -1}`;
    if (!groups.has(key)) groups.set(key, { key, rank: t.rank ?? 0, core: t.core ?? -1, title: headOf(t, many), kinds: new Map() });
    const kinds = groups.get(key).kinds;
    if (!kinds.has(t.kind)) kinds.set(t.kind, { kind: t.kind, key: `${key}.${t.kind}`, tracks: [] });
    kinds.get(t.kind).tracks.push(t);
  }
  const place = (k) => (ORDER.indexOf(k) + ORDER.length) % ORDER.length;
  return [...groups.values()].sort((a, b) => a.rank - b.rank || a.core - b.core)
    .map((g) => ({ ...g, kinds: [...g.kinds.values()].sort((a, b) => place(a.kind) - place(b.kind)) }));
}

// What is folded at first: every core past the first eight; many queues and semaphores, but the queues of a core alone.
export function foldedAtFirst(groups) {
  const out = new Set();
  groups.forEach((g, i) => {
    if (i >= 8) out.add(g.key);
    for (const k of g.kinds) if (FOLDED.has(k.kind) && k.tracks.length > (groups.length === 1 && k.kind === "dma" ? 16 : 4)) out.add(k.key);
  });
  return out;
}

// [{y, height, head?, key?, folded?, title, track?, hint?}] and the height of all. A folded head shows one track as a hint.
export function rowsOf(groups, folded) {
  const rows = [];
  let y = 0;
  const add = (row, height) => { rows.push({ ...row, y, height }); y += height; };
  for (const g of groups) {
    const shut = folded.has(g.key);
    const hint = g.kinds.flatMap((k) => k.tracks).find((t) => t.kind === "engine") || g.kinds[0]?.tracks[0];
    if (groups.length > 1 || shut) add({ head: true, key: g.key, folded: shut, title: g.title, track: shut ? hint : null }, HEAD);
    if (shut) continue;
    for (const k of g.kinds) {
      if (k.tracks.length > 1 && FOLDED.has(k.kind)) {
        const closed = folded.has(k.key);
        add({ head: true, inner: true, key: k.key, folded: closed, title: `${k.tracks.length} ${WORDS[k.kind] || k.kind}`, track: closed ? k.tracks[0] : null, hinted: closed ? k.tracks : null }, TRACK);
        if (closed) continue;
      }
      for (const t of k.tracks) add({ title: t.name, track: t }, TRACK);
    }
  }
  return { rows, height: y };
}
