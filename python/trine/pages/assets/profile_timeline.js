// The view around the timeline: its buttons, what is chosen in words, and where it stands as an address.

import { h, replace } from "./dom.js";
import { inFile } from "./data.js";
import { bytes, count, time } from "./format.js";
import { address, stay } from "./shell.js";
import { CHIP, HOST, Timeline } from "./timeline.js";

function pair(name, value, long = false) {
  return value === undefined || value === null || value === "" ? [] : [h("dt", {}, name), h("dd", { class: long ? "long" : "" }, value)];
}

const lineOf = (at) => { const m = /^(.*):(\d+)$/.exec(at || ""); return m ? h("a", { href: address("source", { file: m[1], line: m[2] }) }, at) : at; };

function waitWords(waits) {
  if (!waits) return "";
  const list = Array.isArray(waits) ? waits : [waits];
  return list.filter((w) => w && w.ns > 0).map((w) => `${time(w.ns)} for ${w.for}`).join(", ");
}

function detailOf(found, timeline) {
  const e = found.event;
  const links = (list) => list.map((o, i) => [i ? ", " : "", h("a", { href: "#", onclick: (c) => { c.preventDefault(); timeline.choose(o.event, { move: true }); } }, o.name || `event ${o.event}`)]);
  return h("dl", { class: "pairs" },
    pair("event", e.name ?? e.label), pair("engine", e.engine), pair("takes", time(e.end_ns - e.begin_ns, 5)), pair("begins", time(e.begin_ns - timeline.origin, 8)),
    pair("bytes", e.bytes === undefined ? "" : bytes(e.bytes)), pair("on this machine", e.host_ns && !e.bytes ? time(e.host_ns, 4) : ""), pair("step", e.step || ""),
    pair("source", lineOf(e.source ? (e.line ? `${e.source}:${e.line}` : e.source) : "")), pair("waited", waitWords(e.waits)), pair("framework op", e.framework_op ? h("a", { href: address("operators", { framework_op: e.framework_op }) }, e.framework_op) : ""), pair("graph op", e.graph_op),
    pair("instruction", e.instruction ?? e.text ? h("code", {}, e.instruction ?? e.text) : "", true), pair("operands", e.operands ? h("code", {}, typeof e.operands === "string" ? e.operands : JSON.stringify(e.operands)) : "", true),
    found.near.before.length ? pair("depends on", h("span", {}, links(found.near.before)), true) : [], found.near.after.length ? pair("needed by", h("span", {}, links(found.near.after)), true) : []);
}

// On the chip's clock; `host`: on this machine's.
export async function timelineView(element, page, parameters, host = false) {
  const info = host ? page.host : page, view = host ? "host" : "timeline";
  const where = h("span", { class: "where" }), detail = h("div", { class: "timeline-detail", hidden: true });
  let event = parameters.event, saving = 0;
  const save = (t) => {
    where.textContent = `${time(t.begin - t.origin, 5)} – ${time(t.end - t.origin, 5)} · ${time(t.end - t.begin)} shown`;
    clearTimeout(saving);
    saving = setTimeout(() => { if (!t.gone) stay(view, { begin: Math.round(t.begin), end: Math.round(t.end), event, path: t.path ? 1 : undefined }); }, 150);
    path.setAttribute("aria-pressed", t.path ? "true" : "false");
  };
  const chose = (found) => {
    event = found ? found.event.event : undefined;
    detail.hidden = !found;
    replace(detail, found ? detailOf(found, timeline) : null);
  };
  const path = h("button", { title: "of what is shown (c)", onclick: () => timeline.togglePath().catch((e) => { where.textContent = e.message; }) }, "critical path");
  const timeline = new Timeline({ info, calls: host ? HOST : CHIP, parameters, moved: save, chose });
  timeline.refused = (e) => { where.textContent = e.message; };
  const words = host ? "this machine's clock: runs, transfers, and gaps in which the devices had nothing to do" : page.info.events ? `${count(page.info.events)} events` : "";
  element.append(h("div", { class: "timeline" },
    h("div", { class: "timeline-bar" }, h("button", { title: "all (Home)", onclick: () => timeline.show(info.begin_ns, info.end_ns) }, "all"), h("button", { title: "in (w)", onclick: () => timeline.zoom(0.5) }, "+"), h("button", { title: "out (s)", onclick: () => timeline.zoom(2) }, "−"), host ? null : path, h("span", { class: "faint" }, words),
      page.perfetto && !inFile && !host ? h("a", { href: `/perfetto/index.html#!/?url=${encodeURIComponent(`${location.origin}/api/trace`)}`, target: "_blank", rel: "noopener" }, "open in Perfetto") : null, where),
    detail, timeline.element));
  globalThis.trineTimeline = timeline; // for tests and the curious
  timeline.canvas.focus({ preventScroll: true });
  if (event) timeline.choose(event, { move: parameters.begin === undefined }).catch(() => {});
  if (parameters.path) timeline.togglePath().catch(() => {});
  return () => { timeline.dispose(); clearTimeout(saving); };
}
