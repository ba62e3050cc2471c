// The page of a core dump: where every engine stood, what it waited for, what semaphores held, memory around it.

import { json } from "./data.js";
import { add, fact, h } from "./dom.js";
import { count } from "./format.js";
import { shell } from "./shell.js";
import { table } from "./table.js";

const dump = await json("/api/core");
const STATES = { waits: "waits", ended: "ended", runs: "ran" };

function source(engine) {
  const at = Number(/:(\d+)$/.exec(engine.where || "")?.[1]);
  return h("table", { class: "source" }, h("tbody", {}, engine.source.map(([n, text]) => h("tr", { class: n === at ? "hot" : "" }, h("td", { class: "number" }, n), h("td", { class: "code" }, text)))));
}

// An engine that stands somewhere: its instruction, what it waits for, the lines around it.
function standing(e) {
  return h("section", { class: "stood", "data-engine": e.stream },
    h("h3", {}, `${e.stream} `, h("span", { class: "faint" }, `${STATES[e.state] || e.state} at #${e.index}${e.where ? ` · ${e.where}` : ""}`)),
    h("p", { class: "mono" }, e.where ? e.instruction.replace(` at ${e.where}`, "") : e.instruction), e.waits_for ? h("p", {}, "waits for ", h("strong", {}, e.waits_for)) : null,
    e.loops?.length ? h("p", { class: "note" }, `loops, outermost first: ${e.loops.join(", ")}`) : null, e.source?.length ? source(e) : null);
}

function engines(element) {
  const all = dump.engines || [], still = all.filter((e) => e.state !== "ended");
  add(element, [
    h("div", { class: "facts" }, fact(dump.status, "status", `code ${dump.code}`), all.length ? fact(count(still.length), "engines that still stand", `of ${all.length}`) : null, dump.instructions !== undefined ? fact(count(dump.instructions), "instructions done") : null),
    h("p", { class: "message" }, dump.message),
    all.length ? table([
      { key: "core", name: "core" }, { key: "stream", name: "engine", left: true }, { key: "state", name: "state", left: true }, { key: "index", name: "instruction", show: (e) => (e.state === "ended" ? "" : `#${e.index}`) },
      { key: "waits_for", name: "waits for", left: true, show: (e) => h("span", { class: "clip" }, e.waits_for || "") }, { key: "where", name: "at", left: true, show: (e) => h("span", { class: "clip" }, e.where || "") },
    ], all, { filter: false }) : h("p", { class: "note" }, "This run was refused before it began, or ran at host speed: there are no engines to show."),
    still.map(standing),
    (dump.findings || []).length ? [h("h2", {}, "Findings"), h("ul", {}, dump.findings.map((f) => h("li", {}, h("strong", {}, f.kind), ` ${f.message}`, f.file ? h("span", { class: "faint" }, ` · ${f.file}:${f.line}`) : null)))] : null]);
}

function semaphores(element) {
  const rows = (dump.semaphores || []).flatMap((values, core) => Object.entries(values).map(([name, value]) => ({ core, name, value, waits: (dump.engines || []).filter((e) => (e.core ?? 0) === core && new RegExp(`\\b${name}\\b`).test(e.waits_for || "")).map((e) => e.stream).join(", ") })));
  add(element, [h("p", { class: "note" }, "Those that are not 0. One that an engine waits for and that is missing here is 0."),
    rows.length ? table([{ key: "core", name: "core" }, { key: "name", name: "semaphore", left: true }, { key: "value", name: "holds" }, { key: "waits", name: "waited for by", left: true }], rows, { filter: false }) : h("p", {}, "All are 0.")]);
}

const ROW = 16;
const printable = (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "·");

function hex(m) {
  const bytes = (m.bytes.match(/../g) || []).map((b) => parseInt(b, 16)), lines = [];
  for (let i = 0; i < bytes.length; i += ROW) {
    const part = bytes.slice(i, i + ROW);
    lines.push(`${(Number(m.address) + i).toString(16).padStart(8, "0")}  ${part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(3 * ROW)} ${part.map(printable).join("")}`);
  }
  return h("pre", { class: "mono hex" }, lines.join("\n"));
}

function memory(element) {
  const all = dump.memory || [];
  add(element, [h("p", { class: "note" }, "Of each operand of the instructions at hand, its first bytes."),
    all.length ? all.map((m) => h("section", { class: "piece" }, h("h3", {}, `${m.operand} = ${m.tensor} `, h("span", { class: "faint" }, `${m.stream} · ${m.dtype} · ${m.space}${m.space === "hbm" ? "" : ` partition ${m.partition}`} at 0x${Number(m.address).toString(16)}`)), hex(m))) : h("p", {}, "The dump holds none.")]);
}

const views = [{ name: "engines", title: "Engines", draw: engines }];
if (dump.semaphores) views.push({ name: "semaphores", title: "Semaphores", draw: semaphores });
if (dump.memory) views.push({ name: "memory", title: "Memory", draw: memory });
await shell({ title: `${dump.program}: ${dump.status} (${dump.code})`, detail: ["core dump", dump.chip, dump.pid ? `process ${dump.pid}` : ""].filter(Boolean).join(" · "), views });
