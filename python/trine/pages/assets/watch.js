// `trine monitor --page`: processes and their cores now, read again each second; utilisation and dollars over the last minutes.

import { json } from "./data.js";
import { bar, fact, h, replace } from "./dom.js";
import { bytes, count, digits, time, usd } from "./format.js";
import { chart, disposeIn, token } from "./chart.js";
import { table } from "./table.js";
import { failed, shell } from "./shell.js";

const ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma"];

function coreRows(document) {
  const rows = [];
  for (const runtime of document.neuron_runtime_data) {
    const { neuroncore_counters: counters, memory_used: memory, trine } = runtime.report;
    for (const [id, core] of Object.entries(counters.neuroncores_in_use)) {
      const ours = trine.cores[id], held = memory.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage[id] || {};
      rows.push({ tag: runtime.neuron_runtime_tag, core: Number(id), use: core.neuroncore_utilization, flops: core.flops, ...ours.engine_utilization, held: Object.values(held).reduce((a, b) => a + b, 0), watts: ours.watts, throttled: ours.throttled_percent, lost: ours.lost, runs: ours.executions_total });
    }
  }
  return rows;
}

function processRows(document) {
  return document.neuron_runtime_data.map((r) => ({
    pid: r.pid, tag: r.neuron_runtime_tag, command: r.report.trine.command, instance: r.report.trine.instance, cores: Object.keys(r.report.trine.cores).length,
    done: r.report.execution_stats.execution_summary.completed, wrong: Object.values(r.report.execution_stats.error_summary).reduce((a, b) => a + b, 0),
    p50: r.report.execution_stats.latency_stats.device_latency?.p50 ?? null, p99: r.report.execution_stats.latency_stats.device_latency?.p99 ?? null, usd: r.report.trine.usd_total, hour: r.report.trine.usd_per_hour,
  }));
}

const share = (value) => h("span", {}, bar(value / 100), ` ${digits(value)} %`);
const span = (seconds) => (seconds === null ? "–" : time(seconds * 1e9));

function coresTable(rows) {
  return table([
    { key: "tag", name: "process", left: true }, { key: "core", name: "core" }, { key: "use", name: "utilisation", show: (r) => (r.lost ? h("strong", {}, "lost") : share(r.use)) },
    ...ENGINES.map((e) => ({ key: e, name: e, unit: "%", show: (r) => digits(r[e], 2) })),
    { key: "flops", name: "TFLOP", unit: "/s", value: (r) => r.flops, show: (r) => digits(r.flops / 1e12) }, { key: "held", name: "memory", show: (r) => bytes(r.held) },
    { key: "throttled", name: "throttled", unit: "%", show: (r) => digits(r.throttled, 2) }, { key: "watts", name: "power", unit: "W", show: (r) => digits(r.watts) }, { key: "runs", name: "runs", show: (r) => count(r.runs) },
  ], rows, { sort: "core", down: false, filter: false });
}

function processesTable(rows) {
  return table([
    { key: "pid", name: "pid" }, { key: "tag", name: "tag", left: true }, { key: "command", name: "command", left: true, show: (r) => h("span", { class: "clip" }, r.command) }, { key: "instance", name: "instance", left: true }, { key: "cores", name: "cores" },
    { key: "done", name: "runs", show: (r) => count(r.done) }, { key: "wrong", name: "errors" }, { key: "p50", name: "p50, chip", show: (r) => span(r.p50) }, { key: "p99", name: "p99, chip", show: (r) => span(r.p99) },
    { key: "usd", name: "so far", show: (r) => usd(r.usd) }, { key: "hour", name: "hour", show: (r) => usd(r.hour) },
  ], rows, { sort: "usd", filter: false });
}

function draw(element) {
  const head = h("div", { class: "facts" }), line = h("div"), body = h("div");
  let history = [];
  replace(element, head, line, h("h2", {}, "Cores"), body);
  const figure = chart(() => ({
    grid: { left: 8, right: 16, top: 16, bottom: 8, containLabel: true },
    xAxis: { type: "time" }, yAxis: { type: "value", min: 0, max: 100, axisLabel: { formatter: "{value} %" } },
    series: [{ type: "line", showSymbol: false, areaStyle: { opacity: 0.15 }, itemStyle: { color: token("--first") }, data: history.map((r) => [r[0] * 1000, r[1]]) }],
  }), { height: 180, title: "Mean utilisation of the cores in use" });
  replace(line, figure);
  let timer = 0, over = false;
  async function again() {
    try {
      const now = await json("/api/now", { fresh: true }), cores = coreRows(now.document), last = now.history.at(-1);
      history = now.history;
      replace(head, fact(count(cores.length), "cores in use"), fact(`${digits(last[1])} %`, "utilisation"), fact(usd(last[2]), "so far"), fact(`${digits(last[3])} W`, "power"), now.pending ? fact(count(now.pending), "programs being timed") : null);
      if (cores.length) replace(body, coresTable(cores), h("h2", {}, "Processes"), processesTable(processRows(now.document)));
      else replace(body, h("p", { class: "note" }, "No process uses a core."));
      element.dataset.drawn = String(history.length);
      figure.update();
    } catch (error) {
      replace(head, failed(error));
    }
    if (!over) timer = setTimeout(again, 1000);
  }
  again();
  return () => { over = true; clearTimeout(timer); disposeIn(element); };
}

await shell({ title: "Virtual devices", detail: "utilisation is on the chip's clock · what trine monitor prints", views: [{ name: "now", title: "Now", draw }] });
