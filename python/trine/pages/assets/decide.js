// `trine decide`: the answer, the sliders that move it, and what it rests on: cost, estimates, audit, benchmark, prices.

import { inFile, json } from "./data.js";
import { add, fact, h, replace } from "./dom.js";
import { count, digits, percent, time, usd } from "./format.js";
import { chart, disposeIn, safe, token } from "./chart.js";
import { table } from "./table.js";
import { failed, parseAddress, shell, stay } from "./shell.js";

const start = await json("/api/start");
const shown = { count, percent };

function path(values) {
  return "/api/tco?" + start.sliders.map((s) => `${s.name}=${values[s.name]}`).join("&");
}

function costs(report) {
  const rows = report.rows.slice().reverse(), names = rows.map((r) => `${r.machine}, ${r.way}`);
  return chart(() => ({
    grid: { left: 8, right: 32, top: 30, bottom: 8, outerBoundsMode: "same", containLabel: true },
    legend: { top: 0, right: 0, itemWidth: 14, itemHeight: 9, data: ["5 to 95 of 100 draws", "likely"] },
    xAxis: { type: "value", min: 0, axisLabel: { formatter: usd } },
    yAxis: { type: "category", data: names, axisLabel: { color: token("--ink"), fontSize: 13 } },
    tooltip: { trigger: "axis", axisPointer: { type: "none" }, formatter: (p) => { const r = rows[p[0].dataIndex], t = r.total_usd; return `<b>${safe(names[p[0].dataIndex])}</b><br>likely ${usd(t.likely)}, ${usd(t.low)} to ${usd(t.high)}<br>half of the draws ${usd(r.distribution.p25)} to ${usd(r.distribution.p75)}`; } },
    series: [
      { type: "boxplot", name: "5 to 95 of 100 draws", boxWidth: [9, 14], itemStyle: { color: token("--sixth"), borderColor: token("--first") }, data: rows.map((r) => [r.distribution.p5, r.distribution.p25, r.distribution.p50, r.distribution.p75, r.distribution.p95]) },
      { type: "scatter", name: "likely", symbol: "diamond", symbolSize: 11, itemStyle: { color: token("--fifth") }, data: rows.map((r, i) => [r.total_usd.likely, i]) },
    ],
  }), { height: 50 + 34 * rows.length, title: `Cost over ${report.workload.months} months` });
}

function tornado(report) {
  const list = report.tornado.slice(0, 8).reverse(), names = list.map((t) => t[0].replaceAll("_", " "));
  return chart(() => ({
    xAxis: { type: "value", boundaryGap: ["8%", "8%"], axisLabel: { formatter: usd } },
    yAxis: { type: "category", data: names, axisLabel: { color: token("--ink"), fontSize: 12, width: 210, overflow: "truncate" }, axisLine: { show: false } },
    tooltip: { trigger: "item", formatter: (p) => { const t = list[p.dataIndex]; return `<b>${safe(names[p.dataIndex])}</b><br>at its low ${usd(t[1])}, at its high ${usd(t[2])}`; } },
    series: [{
      type: "custom", encode: { x: [1, 2], y: 0 }, data: list.map((t, i) => [i, t[1], t[2]]),
      renderItem: (_, api) => {
        const low = api.coord([api.value(1), api.value(0)]), high = api.coord([api.value(2), api.value(0)]), left = Math.min(low[0], high[0]);
        const mark = (at, text, side) => ({ type: "text", style: { text, x: at[0] + (side ? 4 : -4), y: at[1], align: side ? "left" : "right", verticalAlign: "middle", fill: token("--faint"), stroke: token("--paper"), lineWidth: 3, fontSize: 11 } });
        return { type: "group", children: [{ type: "rect", shape: { x: left, y: low[1] - 6, width: Math.max(1.5, Math.abs(high[0] - low[0])), height: 12 }, style: { fill: token("--second") } }, mark(low, "low", low[0] > high[0]), mark(high, "high", high[0] >= low[0])] };
      },
      markLine: { silent: true, z: 1, symbol: "none", label: { formatter: "same cost", color: token("--faint") }, lineStyle: { color: token("--ink"), type: "solid" }, data: [{ xAxis: 0 }] },
    }],
  }), { height: 60 + 30 * list.length, title: `${report.compared[0]} less ${report.compared[1]}: what decides it` });
}

function rowsTable(report) {
  return table([
    { key: "machine", name: "machine", left: true, whole: true }, { key: "way", name: "way", left: true, whole: true },
    { key: "low", name: "low", value: (r) => r.total_usd.low, show: (r) => usd(r.total_usd.low) }, { key: "likely", name: "likely", value: (r) => r.total_usd.likely, show: (r) => h("strong", {}, usd(r.total_usd.likely)) },
    { key: "high", name: "high", value: (r) => r.total_usd.high, show: (r) => usd(r.total_usd.high) }, { key: "usd_per_million_tokens", name: "1M", unit: "$", show: (r) => digits(r.usd_per_million_tokens) },
    { key: "speed", name: "speed", unit: "/s", value: (r) => r.lines.tokens_per_s, show: (r) => count(r.lines.tokens_per_s) }, { key: "held", name: "machines", value: (r) => r.lines.machines_mean, show: (r) => digits(r.lines.machines_mean, 2) },
    { key: "basis_kind", name: "speed is", left: true, hint: (r) => r.basis },
  ], report.rows, { sort: "likely", down: false, filter: false });
}

function flips(answer) {
  return [h("h2", {}, "Where it flips"), answer.words.flips.length ? h("ul", {}, answer.words.flips.map((f) => h("li", {}, f.replaceAll("_", " ")))) : h("p", { class: "note" }, "No single input flips it within its range.")];
}

function estimates(list) {
  if (!list.length) return [];
  const latency = (e) => h("span", {}, `${digits(e.latency_ms.p50)} ms `, h("span", { class: "faint" }, `${digits(e.latency_ms.low)}–${digits(e.latency_ms.high)}`));
  return [h("h2", {}, "Estimates of one call"), table([
    { key: "instance", name: "instance", left: true }, { key: "phase", name: "phase", left: true }, { key: "batch", name: "batch" }, { key: "seq", name: "tokens", show: (e) => count(e.seq) }, { key: "tp", name: "tp" }, { key: "copies", name: "copies" },
    { key: "latency", name: "p50, band", value: (e) => e.latency_ms.p50, show: latency }, { key: "throughput_per_s", name: "results", unit: "/s", show: (e) => count(e.throughput_per_s) },
    { key: "mfu_pct", name: "MFU", unit: "%", show: (e) => digits(e.mfu_pct, 2) }, { key: "mbu_pct", name: "MBU", unit: "%", show: (e) => digits(e.mbu_pct, 2) }, { key: "bound", name: "bound by", left: true },
  ], list, { filter: false })];
}

function hours(effort) {
  const ends = typeof effort === "object" && effort ? Object.values(effort) : [effort];
  const sorted = ends.filter((x) => typeof x === "number").sort((a, b) => a - b);
  return sorted.length > 1 && sorted[0] !== sorted.at(-1) ? `${digits(sorted[0])}–${digits(sorted.at(-1))}` : digits(sorted[0] ?? 0);
}

function audit(report) {
  if (!report) return [h("h2", {}, "Audit"), h("p", { class: "note" }, "No project was given: porting hours are an estimate. trine decide --audit PATH reads one.")];
  const list = report.findings || [];
  return [h("h2", {}, "Audit"), h("p", {}, `${list.length} places depend on CUDA.`), list.length ? table([
    { key: "file", name: "where", left: true, show: (f) => h("code", {}, `${f.file}:${f.line}`) }, { key: "kind", name: "kind", left: true, whole: true }, { key: "what", name: "what", left: true, show: (f) => h("span", { class: "clip" }, f.what) },
    { key: "instead", name: "instead", left: true, show: (f) => h("span", { class: "clip" }, f.instead || "") }, { key: "effort_h", name: "hours", value: (f) => (typeof f.effort_h === "object" && f.effort_h ? Object.values(f.effort_h)[1] ?? 0 : f.effort_h), show: (f) => hours(f.effort_h) },
  ], list, { sort: "effort_h" }) : null];
}

function benchPart(part, kind) {
  const rows = part.load.filter((r) => r.latency.p99_ms);
  const curve = chart(() => ({
    legend: { top: 0, right: 0 }, xAxis: { type: "value", name: "requests offered a second", nameLocation: "middle", nameGap: 28, axisLabel: { formatter: count } }, yAxis: { type: "value", name: "ms", axisLabel: { formatter: (v) => digits(v) } },
    grid: { left: 8, right: 24, top: 36, bottom: 26, outerBoundsMode: "same", containLabel: true }, tooltip: { trigger: "axis", valueFormatter: (v) => `${digits(v)} ms` },
    series: [["p50", "p50_ms"], ["p99", "p99_ms"]].map(([name, level]) => ({ type: "line", name, symbolSize: 6, data: rows.map((r) => [r.offered_per_s, r.latency[level]]) })),
  }), { height: 280, title: `Latency under load, ${kind} time` });
  const faults = Object.entries(part.failures || {}).map(([name, f]) => ({ name, ...f })), tried = faults.filter((f) => !f.not_tried);
  const failures = faults.length ? [tried.length ? table([
    { key: "name", name: "failure", left: true }, { key: "lost", name: "requests lost", show: (f) => count(f.lost) }, { key: "recovered_after_s", name: "recovered after", show: (f) => (f.recovered_after_s === null ? "not seen" : `${digits(f.recovered_after_s)} s`) },
    { key: "p99_ms_while", name: "p99 while it lasted", show: (f) => (typeof f.p99_ms_while === "number" ? `${digits(f.p99_ms_while)} ms` : "–") },
  ], tried, { filter: false }) : null, faults.filter((f) => f.not_tried).map((f) => h("p", { class: "note" }, `${f.name}: not tried, ${f.not_tried}`))] : null;
  const facts = part.call_ms ? h("div", { class: "facts" }, fact(`${digits(part.call_ms.p50)} ms`, "one call", `${digits(part.call_ms.low)} – ${digits(part.call_ms.high)}`), fact(count(part.capacity_per_s), "requests a second", `${part.nodes} × ${part.instance}`), fact(time(part.burst.last_ms * 1e6), `burst of ${part.burst.requests}`, "until the last")) : null;
  return [h("p", { class: "faint" }, kind === "chip" ? `Chip time, predicted: ${part.model}` : "Host time, measured"), facts, h("div", { class: "columns" }, curve, h("div", {}, failures))];
}

function claims(report) {
  const list = report.claims.filter((c) => c.ratio_here);
  const priced = report.rows.map((r) => ({ machine: r.machine, way: r.way, usd: r.price.usd_per_hour ?? r.price.usd, region: r.price.region, date: r.price.date, from: r.price.from }));
  return [list.length ? [h("h2", {}, "The vendor's claims, as a ratio of dollars a token"), table([{ key: "claim", name: "claim", left: true, show: (c) => h("span", { class: "clip" }, c.claim) }, { key: "claimed", name: "claimed", value: (c) => c.claimed_ratio[0], show: (c) => [...new Set(c.claimed_ratio)].map((x) => digits(x)).join(" to ") }, { key: "ratio_here", name: "here", show: (c) => digits(c.ratio_here) }, { key: "from", name: "source", left: true, show: (c) => h("span", { class: "clip" }, c.from) }], list, { filter: false })] : [],
    h("h2", {}, "Prices"), table([{ key: "machine", name: "machine", left: true, whole: true }, { key: "way", name: "way", left: true, whole: true }, { key: "usd", name: "an hour, or to buy", unit: "$", show: (p) => digits(p.usd, 4) }, { key: "region", name: "region", left: true, whole: true }, { key: "date", name: "date", left: true, whole: true }, { key: "from", name: "source", left: true, show: (p) => h("span", { class: "clip" }, p.from || "") }], priced, { filter: false }),
    report.stale_prices ? h("p", { class: "note" }, `${report.stale_prices} prices are older than 90 days; trine tco --check-prices lists them.`) : null,
    report.without.length ? [h("h2", {}, "Not compared"), h("ul", {}, report.without.map((w) => h("li", {}, `${w.machine}: ${w.why}${w.price_to_match ? `; it would match the best at ${usd(w.price_to_match)} an hour` : ""}`)))] : []];
}

function page(element, parameters) {
  const values = Object.fromEntries(start.sliders.map((s) => [s.name, parameters[s.name] !== undefined && s.steps.includes(Number(parameters[s.name])) ? Number(parameters[s.name]) : s.at]));
  const head = h("div", { "aria-live": "polite" }), body = h("div"), rest = h("div"), panel = h("div", { class: "sliders" });
  let asking = 0, waiting = 0;

  async function ask() {
    const mine = ++asking;
    clearTimeout(waiting);
    try {
      const answer = await json(path(values), { fresh: true });
      if (mine !== asking) return;
      if (answer.waits) {
        head.querySelector(".note")?.replaceChildren(answer.waits + " …");
        waiting = setTimeout(ask, 500);
        return;
      }
      draw(answer);
    } catch (error) {
      if (mine === asking) replace(head, failed(inFile ? new Error("this file holds each slider moved alone; the live page answers every combination") : error));
    }
  }

  function draw(answer) {
    const r = answer.report;
    replace(head, h("div", { class: "answer" }, answer.words.answer), h("p", { class: "note" }, answer.words.title));
    disposeIn(body);
    replace(body, costs(r), rowsTable(r), r.compared ? [tornado(r), flips(answer)] : null);
    replace(rest, estimates(answer.estimates), claims(r));
    stay("decision", Object.fromEntries(start.sliders.filter((s) => values[s.name] !== s.at).map((s) => [s.name, values[s.name]])));
    element.dataset.drawn = path(values);
  }

  add(panel, start.sliders.map((s) => {
    const format = shown[s.kind] || digits, out = h("output", {}, format(values[s.name]));
    const input = h("input", { type: "range", min: "0", max: String(s.steps.length - 1), step: "1", name: s.name, "aria-label": s.title });
    input.value = String(s.steps.indexOf(values[s.name]));
    input.setAttribute("aria-valuetext", format(values[s.name]));
    input.addEventListener("input", () => { values[s.name] = s.steps[Number(input.value)]; out.textContent = format(values[s.name]); input.setAttribute("aria-valuetext", out.textContent); ask(); });
    return h("label", {}, h("span", {}, s.title), out, input);
  }));
  const bench = h("div");
  add(element, [head, panel, body, audit(start.audit), bench, rest]);
  json("/api/bench").then((b) => { if (b.chip || b.host) replace(bench, h("h2", {}, "Benchmark"), ["chip", "host"].filter((k) => b[k]).map((k) => benchPart(b[k], k))); element.dataset.bench = "1"; }, (e) => { replace(bench, h("h2", {}, "Benchmark"), failed(e)); element.dataset.bench = "failed"; });
  return ask();
}

await shell({ title: start.title, detail: `${start.months} months · every number is one of trine audit, estimate, tco or bench`, views: [{ name: "decision", title: "Decision", draw: page }], keys: [["← →", "on a slider: its steps"]] });
if (!parseAddress(location.hash).view) stay("decision");
