// The one way to draw a chart: ECharts with our colours, fonts and grid, drawn again when the page turns dark or is resized.
// SVG by default, so that a page prints sharp; { canvas: true } for thousands of points.

import { h } from "./dom.js";

const drawn = new Set();

// ECharts' tooltips are HTML: every text from outside goes through this.
export const safe = (text) => String(text ?? "").replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const PALETTE = ["--first", "--second", "--third", "--fourth", "--fifth", "--sixth", "--seventh"];

function base() {
  const ink = token("--ink"), faint = token("--faint"), grid = token("--line"), paper = token("--paper");
  const axis = { axisLine: { lineStyle: { color: faint } }, axisTick: { show: false }, axisLabel: { color: faint, fontSize: 12 }, nameTextStyle: { color: faint, fontSize: 12 }, splitLine: { lineStyle: { color: grid } }, splitArea: { show: false } };
  return {
    theme: { color: PALETTE.map(token), backgroundColor: "transparent", textStyle: { color: ink, fontFamily: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" }, valueAxis: axis, categoryAxis: axis, logAxis: axis, timeAxis: axis, legend: { textStyle: { color: ink } } },
    tooltip: { backgroundColor: paper, borderColor: grid, textStyle: { color: ink, fontSize: 13 }, confine: true, transitionDuration: 0 },
  };
}

// `option` is a function, so that colours are read again in the dark. Gives the element.
export function chart(option, { height = 320, canvas = false, title = "", click } = {}) {
  const box = h("div", { class: "chart", style: { height: `${height}px` }, role: "img", "aria-label": title });
  const place = h("figure", { class: "figure" }, title ? h("figcaption", {}, title) : null, box);
  let instance = null;
  const draw = () => {
    if (!box.isConnected) return;
    const { theme, tooltip } = base();
    instance?.dispose();
    instance = globalThis.echarts.init(box, theme, { renderer: canvas ? "canvas" : "svg" });
    const wanted = option();
    instance.setOption({ animation: false, grid: { left: 8, right: 24, top: 36, bottom: 8, outerBoundsMode: "same", containLabel: true }, ...wanted, tooltip: { ...tooltip, ...wanted.tooltip } });
    if (click) instance.on("click", click);
  };
  const sized = new ResizeObserver(() => (instance ? instance.resize() : draw()));
  sized.observe(box);
  drawn.add(draw);
  place.redraw = draw;
  place.update = () => { if (instance) { const o = option(); instance.setOption({ ...o, tooltip: { ...base().tooltip, ...o.tooltip } }, { replaceMerge: ["series"] }); } else draw(); };
  place.dispose = () => { sized.disconnect(); drawn.delete(draw); instance?.dispose(); instance = null; };
  return place;
}

// Of a view that goes away.
export function disposeIn(element) {
  for (const figure of element.querySelectorAll(".figure")) figure.dispose?.();
}

export function redrawAll() {
  for (const draw of drawn) draw();
}

for (const which of ["(prefers-color-scheme: dark)", "print"]) matchMedia(which).addEventListener("change", redrawAll);
