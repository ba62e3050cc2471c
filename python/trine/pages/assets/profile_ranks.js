// Many ranks side by side with who waits for whom, and two profiles beside each other.

import { json } from "./data.js";
import { add, fact, h } from "./dom.js";
import { count, digits, percent, time } from "./format.js";
import { chart, safe, token } from "./chart.js";
import { table } from "./table.js";

const ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync"];

export async function ranks(element) {
  const [s, waits] = await Promise.all([json("/api/summary"), json("/api/waits")]);
  const nodes = Object.entries(s.nodes).map(([name, n], i) => ({ name: name.replace("_", " "), i, ...n }));
  const most = Math.max(1, ...waits.flat());
  const cells = waits.flatMap((row, i) => row.map((ns, j) => [j, i, ns]));
  add(element, [
    chart(() => ({
      legend: { top: 0, right: 0 }, grid: { left: 8, right: 24, top: 34, bottom: 8, outerBoundsMode: "same", containLabel: true },
      xAxis: { type: "value", axisLabel: { formatter: (v) => time(v * 1e9) } }, yAxis: { type: "category", inverse: true, data: nodes.map((n) => n.name), axisLabel: { color: token("--ink") } }, tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, valueFormatter: (v) => time(v * 1e9) },
      series: [["on the engines", "total_active_time", "--first"], ["launches", "launch_time", "--seventh"], ["collectives", "cc_op_active_time", "--fifth"], ["waiting for others", "wait_time", "--second"]].map(([name, key, colour]) => ({ type: "bar", stack: "all", name, barMaxWidth: 22, itemStyle: { color: token(colour) }, data: nodes.map((n) => n[key]) })),
    }), { height: 70 + Math.min(640, 30 * nodes.length), title: "Where each rank's time goes" }),
    waits.flat().some((ns) => ns > 0) ? chart(() => ({
      grid: { left: 8, right: 24, top: 10, bottom: 60, outerBoundsMode: "same", containLabel: true }, xAxis: { type: "category", name: "for", nameLocation: "middle", nameGap: 26, data: nodes.map((n) => n.i) }, yAxis: { type: "category", inverse: true, data: nodes.map((n) => n.name) },
      visualMap: { min: 0, max: most, calculable: false, orient: "horizontal", left: "center", bottom: 0, inRange: { color: [token("--panel"), token("--second"), token("--fifth")] }, text: [time(most), "0"], textStyle: { color: token("--faint") } },
      tooltip: { trigger: "item", formatter: (p) => `${safe(nodes[p.value[1]].name)} waits ${time(p.value[2])} for rank ${p.value[0]}` },
      series: [{ type: "heatmap", data: cells, itemStyle: { borderColor: token("--paper"), borderWidth: 1 }, label: { show: nodes.length <= 8, formatter: (p) => (p.value[2] ? time(p.value[2]) : ""), color: token("--ink") } }],
    }), { height: 130 + Math.min(560, 34 * nodes.length), title: "Who (row) waits for whom (column), at collectives" }) : h("p", { class: "note" }, "No rank waited for another at a collective."),
    table([
      { key: "name", name: "rank", left: true, value: (n) => n.i }, { key: "total_time", name: "time", show: (n) => time(n.total_time * 1e9) }, { key: "total_active_time", name: "on the engines", show: (n) => time(n.total_active_time * 1e9) }, { key: "cc_op_active_time", name: "collectives", show: (n) => time(n.cc_op_active_time * 1e9) },
      { key: "wait_time", name: "waits", show: (n) => time(n.wait_time * 1e9) }, ...ENGINES.map((e) => ({ key: e, name: e, value: (n) => n[`${e}_engine_active_time_percent`], show: (n) => percent(n[`${e}_engine_active_time_percent`], 2) })), { key: "mfu", name: "MFU", value: (n) => n.mfu_estimated_percent, show: (n) => percent(n.mfu_estimated_percent, 2) },
    ], nodes, { sort: "name", down: false })]);
}

function delta(ns) {
  return h("span", { class: ns > 0 ? "delta-worse" : ns < 0 ? "delta-better" : "" }, `${ns > 0 ? "+" : ns < 0 ? "−" : ""}${time(Math.abs(ns))}`);
}

function changes(list) {
  const columns = [{ key: "name", name: "name", left: true, show: (r) => h("span", { class: "clip" }, r.name) }, { key: "before_ns", name: "before", show: (r) => time(r.before_ns) }, { key: "after_ns", name: "after", show: (r) => time(r.after_ns) },
    { key: "change_ns", name: "change", value: (r) => Math.abs(r.change_ns), show: (r) => delta(r.change_ns) }, { key: "counts", name: "times", value: (r) => r.after_count, show: (r) => (r.before_count === r.after_count ? count(r.after_count) : `${count(r.before_count)} → ${count(r.after_count)}`) }, { key: "why", name: "why", left: true }];
  return table(columns, list, { sort: "change_ns" });
}

export async function compare(element) {
  const c = await json("/api/compare"), { before, after } = c, moved = c.operators.filter((o) => Math.abs(o.change_ns) >= 1).slice(0, 14).reverse();
  add(element, [
    h("div", { class: "facts" }, fact(time(before.time_ns), "before", before.path), fact(time(after.time_ns), "after", after.path), fact(delta(c.change_ns), "change", before.time_ns ? `${c.change_ns >= 0 ? "+" : ""}${digits((100 * c.change_ns) / before.time_ns)} %` : ""), before.step_ns && after.step_ns ? fact(delta(c.step_change_ns), "a step", `${time(before.step_ns)} → ${time(after.step_ns)}`) : null),
    moved.length ? chart(() => ({
      xAxis: { type: "value", axisLabel: { formatter: (v) => time(v) } }, yAxis: { type: "category", data: moved.map((o) => o.name), axisLabel: { color: token("--ink"), width: 300, overflow: "truncate" }, axisLine: { show: false } },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (p) => { const o = moved[p[0].dataIndex]; return `<b>${safe(o.name)}</b><br>${time(o.before_ns)} → ${time(o.after_ns)}<br>${safe(o.why)}`; } },
      series: [{ type: "bar", barMaxWidth: 16, data: moved.map((o) => ({ value: o.change_ns, itemStyle: { color: token(o.change_ns > 0 ? "--bad" : "--good") } })) }],
    }), { height: 60 + 26 * moved.length, title: "What got slower, and what faster" }) : h("p", { class: "note" }, "No operator changed."),
    h("h2", {}, "Programs"), changes(c.programs), h("h2", {}, "Operators"), changes(c.operators)]);
}
