// The frame of every page: title, views as tabs with their own address, dark and light, keyboard, print.
// A view is { name, title, draw(element, parameters) -> function that ends it, or nothing }.

import { h, replace } from "./dom.js";
import { disposeIn, redrawAll } from "./chart.js";
import { inFile } from "./data.js";

const MODES = ["auto", "light", "dark"];

function storedMode() {
  try { return localStorage.getItem("trine-mode") || "auto"; } catch { return "auto"; }
}

function setMode(mode) {
  if (mode === "auto") delete document.documentElement.dataset.mode;
  else document.documentElement.dataset.mode = mode;
  try { localStorage.setItem("trine-mode", mode); } catch { /* a file without storage */ }
  redrawAll();
}

// The address of a view: #/timeline?begin=0&end=100
export function parseAddress(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  return { view: decodeURIComponent(path || ""), parameters: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function address(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== undefined && v !== null && v !== "")).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

export const go = (view, parameters) => { location.hash = address(view, parameters); };

// Changes the address without a step in the history: where a timeline stands.
export function stay(view, parameters) {
  history.replaceState(null, "", address(view, parameters));
}

export function failed(error) {
  return h("div", { class: "failed", role: "alert" }, h("strong", {}, "This could not be shown. "), error.message || String(error));
}

export function shell({ title, detail, views, keys = [] }) {
  const app = document.getElementById("app");
  const main = h("main", { id: "view", tabindex: "-1" });
  const tabs = views.map((v, i) => h("a", { class: "tab", href: address(v.name), "data-view": v.name, title: `key ${i + 1}` }, v.title));
  const mode = h("button", { class: "quiet", title: "dark or light (t)", onclick: () => turn() });
  const help = h("dialog", { class: "help" });
  let end = null, current = null, drawing = 0;

  function turn() {
    const next = MODES[(MODES.indexOf(storedMode()) + 1) % MODES.length];
    setMode(next);
    mode.textContent = next;
  }

  const rows = [["1 … 9", "a view"], ["t", "dark, light, as the system"], ["/", "the filter of a table"], ["?", "these keys"], ...keys];
  replace(help, h("h2", {}, "Keys"), h("table", {}, rows.map(([k, what]) => h("tr", {}, h("td", { class: "left" }, h("kbd", {}, k)), h("td", { class: "left" }, what)))), h("button", { onclick: () => help.close() }, "close"));
  replace(app,
    h("header", {}, h("div", { class: "brand" }, h("h1", {}, title), h("div", { class: "detail" }, detail || "")),
      h("div", { class: "tools" }, mode, h("button", { class: "quiet", title: "keys (?)", onclick: () => help.showModal() }, "?"), h("button", { class: "quiet", title: "print", onclick: () => print() }, "print"))),
    views.length > 1 ? h("nav", { "aria-label": "views" }, tabs) : null, main, help);
  mode.textContent = storedMode();
  setMode(storedMode());

  async function show() {
    const { view, parameters } = parseAddress(location.hash);
    const wanted = views.find((v) => v.name === view) || views[0];
    const mine = ++drawing;
    if (end) end();
    end = null;
    disposeIn(main);
    current = wanted.name;
    main.className = wanted.wide ? "wide" : "";
    for (const tab of tabs) {
      if (tab.dataset.view === current) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    document.title = `${wanted.title} – ${title}`;
    const inner = h("div", { class: "inner", "data-view": current });
    replace(main, inner);
    main.removeAttribute("data-ready");
    try {
      const done = await wanted.draw(inner, parameters);
      if (mine === drawing) end = typeof done === "function" ? done : null;
      else if (typeof done === "function") done();
    } catch (error) {
      if (mine === drawing) replace(inner, failed(error));
    }
    if (mine === drawing) main.dataset.ready = current;
  }

  addEventListener("hashchange", show);
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    if (/^[1-9]$/.test(e.key) && views[e.key - 1]) go(views[e.key - 1].name);
    else if (e.key === "t") turn();
    else if (e.key === "?") help.showModal();
    else if (e.key === "/") { const input = main.querySelector("input[type=search]"); if (input) { e.preventDefault(); input.focus(); } }
    else return;
  });
  addEventListener("beforeprint", () => document.documentElement.classList.add("printing"));
  addEventListener("afterprint", () => document.documentElement.classList.remove("printing"));
  app.dataset.source = inFile ? "file" : "server";
  return show();
}
