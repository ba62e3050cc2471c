// The answer first: how long, what bounds it, how well the chip is used, what to change first.

import { json } from "./data.js";
import { add, bar, fact, h } from "./dom.js";
import { bytes, count, percent, time } from "./format.js";
import { address, failed } from "./shell.js";
import { table } from "./table.js";

const ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync"];
const seconds = (s, digits) => time(s * 1e9, digits);

function facts(s, n, info) {
  const first = s.programs[0] || {};
  const band = n.band && n.band[1] > 0 ? `${seconds(n.band[0])} – ${seconds(n.band[1])}` : "";
  return h("div", { class: "facts" },
    fact(seconds(n.total_time), "on the chip", band ? `${band}, 90 % band` : ""),
    s.steps ? fact(seconds(s.step_time), "a step", `${count(s.steps)} steps`) : null,
    fact(first.bound || "–", "bound by", first.name ? `of ${first.name}, the longest` : ""),
    fact(percent(n.mfu_estimated_percent), "MFU", `${count(n.model_flops)} FLOP`),
    fact(percent(n.mbu_estimated_percent), "MBU", `${bytes(n.dma_transfer_total_bytes)} of HBM traffic`),
    n.cc_op_count ? fact(seconds(n.cc_op_active_time), "collectives", `${count(n.cc_op_count)} of them, waited ${seconds(n.wait_time)}`) : null,
    n.energy_joules ? fact(`${n.energy_joules < 1 ? Number((n.energy_joules * 1000).toPrecision(3)) + "\u202fmJ" : Number(n.energy_joules.toPrecision(3)) + "\u202fJ"}`, "energy", info.info.instance) : null);
}

function engines(n) {
  const rows = ENGINES.map((e) => [e, n[`${e}_engine_active_time_percent`], n[`${e}_engine_active_time`], n[`${e}_engine_instruction_count`], "instructions"]);
  rows.push(["dma", n.dma_active_time_percent, n.dma_active_time, n.dma_transfer_count, "transfers"]);
  if (n.cc_op_count) rows.push(["collective", n.cc_op_active_time_percent, n.cc_op_active_time, n.cc_op_count, "collectives"]);
  return h("div", {}, rows.map(([name, share, busy, many, word]) => h("div", { class: "bar-row", "data-engine": name }, h("span", {}, name), bar(share, `var(--${name})`), h("span", {}, percent(share)), h("span", { class: "faint" }, `${seconds(busy)} · ${count(many)} ${word}`))));
}

function advice(list) {
  if (!list.length) return h("p", { class: "note" }, "Nothing that re-timing shows to help.");
  return h("ol", { class: "advice" }, list.map((a) => h("li", {},
    h("div", {}, h("strong", {}, a.what), " ", a.source ? h("a", { href: address("source", { file: a.source, line: a.line }) }, a.where) : h("span", { class: "faint" }, a.where)),
    h("div", { class: "gain", title: `${time(a.gain_each_ns)} of each run, by timing it again` }, `−${time(a.gain_ns)}`),
    h("div", { class: "why" }, [a.why, a.fix ? `${a.fix}.` : ""].filter(Boolean).join(" "), ` (rule ${a.rule}, ${a.runs} runs of ${a.program})`))));
}

function programs(list) {
  return table([
    { key: "name", name: "program", left: true }, { key: "runs", name: "runs", show: (p) => count(p.runs) }, { key: "each_ns", name: "each", show: (p) => time(p.each_ns) }, { key: "total_ns", name: "in all", show: (p) => time(p.total_ns) },
    { key: "device_ns", name: "on the engines", show: (p) => time(p.device_ns) }, { key: "launch_ns", name: "launch", show: (p) => time(p.launch_ns) }, { key: "collectives_ns", name: "collectives", show: (p) => time(p.collectives_ns) },
    { key: "bound", name: "bound by", left: true }, { key: "events", name: "events", show: (p) => count(p.events) },
  ], list, { sort: "total_ns" });
}

export async function summary(element, info) {
  const s = await json("/api/summary"), nodes = Object.values(s.nodes), n = nodes[0];
  const advised = h("div", { "data-part": "advice" }, h("p", { class: "note" }, "timing changes …"));
  add(element, [facts(s, n, info),
    h("h2", {}, "What to change first"), advised,
    h("h2", {}, `Engines${nodes.length > 1 ? ", rank 0" : ""}`), engines(n),
    h("h2", {}, "Programs"), programs(s.programs),
    h("p", { class: "note" }, `SBUF filled up to ${bytes(n.sbuf_peak_bytes)} · HBM ${bytes(n.hbm_used_bytes)} · spilled ${bytes(n.spill_save_bytes)} out, ${bytes(n.spill_reload_bytes)} back · launches ${seconds(n.launch_time)}`)]);
  try { advised.replaceChildren(advice(await json("/api/advice"))); } catch (error) { advised.replaceChildren(failed(error)); }
}
