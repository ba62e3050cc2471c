// Roofline, and what each memory holds over time.

import { json } from "./data.js";
import { add, fact, h } from "./dom.js";
import { bytes, count, digits, time } from "./format.js";
import { chart, safe, token } from "./chart.js";
import { table } from "./table.js";

const rate = (v) => `${count(v)}FLOP/s`;

// A roof is two lines that meet where memory stops being the limit.
function roof(peaks, points) {
  const ridge = peaks.flops_per_s / peaks.hbm_bytes_per_s, xs = points.map((p) => p.intensity);
  const low = Math.min(ridge / 30, ...xs.map((x) => x / 3)), high = Math.max(ridge * 30, ...xs.map((x) => x * 3));
  return { ridge, line: [[low, low * peaks.hbm_bytes_per_s], [ridge, peaks.flops_per_s], [high, peaks.flops_per_s]] };
}

export async function roofline(element) {
  const r = await json("/api/roofline"), points = r.points.filter((p) => p.flops > 0 && p.intensity > 0);
  if (!r.peaks.flops_per_s || !r.peaks.hbm_bytes_per_s || !points.length) {
    element.append(h("p", { class: "note" }, "No program of this profile multiplies matrices and moves bytes of HBM: there is nothing to draw under a roof."));
    return;
  }
  const { ridge, line } = roof(r.peaks, points), most = Math.max(...points.map((p) => p.total_ns));
  add(element, [
    h("div", { class: "facts" }, fact(rate(r.peaks.flops_per_s), "peak of a core", r.chip), fact(`${bytes(r.peaks.hbm_bytes_per_s)}/s`, "HBM of a core"), fact(`${digits(ridge)} FLOP/B`, "ridge", "left of it memory bounds")),
    chart(() => ({
      grid: { left: 8, right: 30, top: 40, bottom: 30, outerBoundsMode: "same", containLabel: true },
      xAxis: { type: "log", name: "FLOP a byte of HBM", nameLocation: "middle", nameGap: 30, min: line[0][0], max: line[2][0], axisLabel: { formatter: (v) => digits(v) }, minorSplitLine: { show: false } },
      yAxis: { type: "log", name: "FLOP/s", axisLabel: { formatter: count } },
      tooltip: { trigger: "item", formatter: (p) => (p.seriesName === "roof" ? "" : `<b>${safe(p.data.of.name)}</b><br>${rate(p.data.of.flops_per_s)} at ${digits(p.data.of.intensity)} FLOP/B<br>${time(p.data.of.time_ns)} each, ${p.data.of.runs} runs, bound by ${safe(p.data.of.bound)}`) },
      series: [
        { type: "line", name: "roof", data: line, symbol: "none", silent: true, lineStyle: { color: token("--ink"), width: 2 } },
        { type: "scatter", name: "programs", data: points.map((p) => ({ value: [p.intensity, p.flops_per_s], of: p, symbolSize: 10 + 24 * Math.sqrt(p.total_ns / most) })), itemStyle: { color: token("--first"), opacity: 0.8 },
          label: { show: points.length <= 20, position: "right", formatter: (p) => p.data.of.name, color: token("--ink"), fontSize: 12 }, labelLayout: { hideOverlap: true } },
      ],
    }), { height: 460, title: "Roofline of one core: each program by its size in time" }),
    table([{ key: "name", name: "program", left: true }, { key: "intensity", name: "FLOP/B", show: (p) => digits(p.intensity) }, { key: "flops_per_s", name: "FLOP/s", show: (p) => count(p.flops_per_s) },
      { key: "hbm_bytes", name: "HBM", show: (p) => bytes(p.hbm_bytes) }, { key: "time_ns", name: "each", show: (p) => time(p.time_ns) }, { key: "total_ns", name: "in all", show: (p) => time(p.total_ns) }, { key: "bound", name: "bound by", left: true }], points, { sort: "total_ns" })]);
}

const WORDS = { sbuf: "SBUF of a core", psum: "PSUM of a core", hbm: "HBM" };

// The top of an axis in bytes, and its step: both round in powers of two.
function binaryAxis(most) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(most, 4) / 5)), top = Math.ceil(most / step - 1e-9) * step;
  return { max: top, interval: step };
}

function curve(kind, { rows, capacity_bytes: capacity }, info) {
  const ends = rows.length ? [...rows, [info.end_ns, rows[rows.length - 1][1], ""]] : [];
  const peak = rows.reduce((a, r) => (r[1] > a[1] ? r : a), [0, 0, ""]);
  const title = `${WORDS[kind]}: ${bytes(peak[1])} at most${capacity ? ` of ${bytes(capacity)}` : ""}${peak[2] ? `, at ${time(peak[0])} (${peak[2]})` : ""}`;
  const figure = chart(() => ({
    grid: { left: 8, right: 24, top: 14, bottom: 8, outerBoundsMode: "same", containLabel: true },
    xAxis: { type: "value", min: info.begin_ns, max: info.end_ns, axisLabel: { formatter: (v) => time(v), hideOverlap: true, showMaxLabel: false }, splitLine: { show: false } },
    yAxis: { type: "value", min: 0, ...(capacity ? { max: capacity, interval: capacity / 4 } : binaryAxis(peak[1])), axisLabel: { formatter: bytes } },
    dataZoom: [{ type: "inside", filterMode: "none" }],
    tooltip: { trigger: "axis", axisPointer: { type: "line" }, formatter: (p) => { const r = ends[p[0].dataIndex]; return `${time(r[0], 5)}: ${bytes(r[1])}<br>${safe(r[2])}`; } },
    series: [{ type: "line", step: "end", symbol: "none", lineStyle: { width: 1.2, color: token("--first") }, areaStyle: { color: token("--sixth"), opacity: 0.35 }, sampling: "max", data: ends.map((r) => [r[0], r[1]]) }],
  }), { height: 210, canvas: true, title });
  figure.dataset.kind = kind;
  figure.dataset.peak = peak[1];
  return figure;
}

export async function memory(element, info) {
  const kinds = ["hbm", "sbuf", "psum"], all = await Promise.all(kinds.map((k) => json(`/api/memory?kind=${k}`)));
  add(element, [h("p", { class: "note" }, `What is held over the chip's time${info.info.ranks?.length > 1 ? ", of rank 0" : ""}; the wheel zooms, dragging moves.`), kinds.map((k, i) => (all[i].rows.length ? curve(k, all[i], info) : null))]);
}
