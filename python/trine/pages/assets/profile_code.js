// Operators as a table that unfolds (framework op, graph op, instructions), and the user's source with time beside each line.

import { holds, json } from "./data.js";
import { add, bar, h } from "./dom.js";
import { bytes, count, percent, time } from "./format.js";
import { address, go } from "./shell.js";
import { table } from "./table.js";

const UNITS = ["tensor", "vector", "scalar", "gpsimd", "dma", "collective"];

// Parts of a whole in the engines' colours.
function engineBar(busy, most) {
  const total = Object.values(busy).reduce((a, b) => a + b, 0);
  return h("span", { class: "bar", title: Object.entries(busy).map(([k, v]) => `${k} ${time(v)}`).join(", ") },
    h("span", { style: { display: "flex", width: `${most ? (100 * total) / most : 0}%` } }, Object.entries(busy).map(([k, v]) => h("span", { style: { background: `var(--${UNITS.includes(k) ? k : "other"})`, width: `${(100 * v) / total}%`, height: "0.75em" } }))));
}

function leaf(op) {
  return { ...op, name: op.graph_op || "(no graph op)", level: "graph", children: Object.entries(op.opcodes).map(([name, n]) => ({ name, level: "instruction", instructions: n })) };
}

// The same rows, put under the framework op that made them; what is shown in a head is the sum of what is under it.
function tree(list) {
  const groups = new Map();
  for (const op of list) {
    const key = `${op.program}\n${op.framework_op}\n${op.source}\n${op.line}`;
    if (!groups.has(key)) groups.set(key, { name: op.framework_op || op.program, level: "framework", program: op.program, source: op.source, line: op.line, framework_op: op.framework_op, ns: 0, instructions: 0, hbm_bytes: 0, flops: 0, waited_ns: 0, busy_ns: {}, children: [] });
    const g = groups.get(key);
    for (const k of ["ns", "instructions", "hbm_bytes", "flops", "waited_ns"]) g[k] += op[k];
    for (const [k, v] of Object.entries(op.busy_ns)) g.busy_ns[k] = (g.busy_ns[k] || 0) + v;
    g.children.push(leaf(op));
  }
  return [...groups.values()];
}

async function show(op) {
  const query = new URLSearchParams({ program: op.program || "", framework_op: op.framework_op || "", graph_op: op.level === "graph" ? op.graph_op : "", source: op.source || "", line: op.line ? String(op.line) : "" });
  const found = await json(`/api/find?${query}`);
  if (found.event !== null) go("timeline", { event: found.event });
}

const where = (op) => (op.source ? h("a", { href: address("source", { file: op.source, line: op.line }), onclick: (e) => e.stopPropagation() }, op.source.split("/").pop() + (op.line ? `:${op.line}` : "")) : "");

export async function operators(element, parameters) {
  const list = await json("/api/operators"), rows = tree(list), most = Math.max(1, ...rows.map((r) => Object.values(r.busy_ns).reduce((a, b) => a + b, 0)));
  const jump = (op) => (op.level === "instruction" || !holds("/api/find") ? "" : h("a", { href: "#/timeline", title: "its longest event on the timeline", onclick: (e) => { e.preventDefault(); e.stopPropagation(); show(op); } }, "timeline"));
  add(element, [h("p", { class: "note" }, "Framework op, the graph's op it became, the instructions that do it. Time is of the unit that each keeps longest, over all runs; the bar is the time on every unit."), table([
    { key: "name", name: "operator", left: true, tree: true, show: (o) => (o.level === "instruction" ? h("code", {}, o.name) : o.name) }, { key: "program", name: "program", left: true, show: (o) => o.program ?? "" },
    { key: "source", name: "source", left: true, show: where }, { key: "ns", name: "time", show: (o) => (o.ns === undefined ? "" : time(o.ns)) }, { key: "busy", name: "units", left: true, value: (o) => o.ns, show: (o) => (o.busy_ns ? engineBar(o.busy_ns, most) : "") },
    { key: "waited_ns", name: "waited", show: (o) => (o.waited_ns === undefined ? "" : time(o.waited_ns)) }, { key: "instructions", name: "instructions", show: (o) => count(o.instructions) },
    { key: "hbm_bytes", name: "HBM", show: (o) => (o.hbm_bytes === undefined ? "" : bytes(o.hbm_bytes)) }, { key: "flops", name: "FLOP", show: (o) => (o.flops === undefined ? "" : count(o.flops)) }, { key: "jump", name: "", show: jump },
  ], rows, { sort: "ns", open: (r) => rows.length === 1 || (parameters.framework_op === r.framework_op) })]);
}

// A file's lines, each with its time; where the profile keeps no text, only the lines that took any, or the nodes of a file without lines.
function listing(file, lines, text, wanted) {
  const timed = new Map(lines.map((l) => [l.line, l])), most = Math.max(...lines.map((l) => l.ns), 1);
  const all = text ? text.split("\n").map((t, i) => [i + 1, t]) : lines.slice().sort((a, b) => a.line - b.line || b.ns - a.ns).map((l) => [l.line, l.text, l]);
  return h("table", { class: "source", "data-file": file }, all.map(([number, code, own]) => {
    const at = own ?? timed.get(number);
    return h("tr", { class: wanted === number ? "hot" : "", id: `line-${number}` },
      h("td", {}, at ? time(at.ns) : ""), h("td", {}, at ? percent(at.share) : ""), h("td", {}, at ? bar(at.ns / most, "var(--first)", Object.entries(at.engines).map(([k, v]) => `${k} ${time(v)}`).join(", ")) : ""),
      h("td", { class: "number" }, number || ""), h("td", { class: "code" }, code || " "));
  }));
}

export async function sourceView(element, parameters) {
  const [lines, texts] = await Promise.all([json("/api/source"), json("/api/texts")]);
  if (!lines.length) {
    element.append(h("p", { class: "note" }, "No instruction of this profile names a line of source. Kernels always do; graphs do where their framework gave lines."));
    return;
  }
  const files = [...new Set(lines.map((l) => l.file))];
  const total = (f) => lines.filter((l) => l.file === f).reduce((a, l) => a + l.ns, 0);
  files.sort((a, b) => total(b) - total(a));
  const file = files.includes(parameters.file) ? parameters.file : files[0];
  const select = h("select", { "aria-label": "file", onchange: (e) => go("source", { file: e.target.value }) }, files.map((f) => h("option", { value: f, selected: f === file }, f)));
  add(element, [h("p", { class: "note" }, "Time is of the unit that a line keeps longest; its share is of the whole."), files.length > 1 ? h("p", {}, select) : h("h2", {}, file), listing(file, lines.filter((l) => l.file === file), texts[file], Number(parameters.line))]);
  element.querySelector(".hot")?.scrollIntoView({ block: "center" });
}
