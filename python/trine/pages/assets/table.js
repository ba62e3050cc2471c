// A table that sorts by any column, filters, unfolds children, and shows its rows as they are scrolled to.
// Columns: { key, name, unit, left, whole (on paper too in one line), show(row) -> text or node, value(row) -> what is sorted by }.

import { h, replace } from "./dom.js";

const PAGE = 200;

function cell(column, row, depth) {
  const shown = column.show ? column.show(row) : row[column.key];
  const td = h("td", { class: (column.left ? "left" : "") + (column.whole ? " whole" : ""), title: column.hint ? column.hint(row) : null });
  if (column.tree) td.style.paddingLeft = `${0.7 + 1.2 * depth}em`;
  if (column.tree && row.children) td.append(h("span", { class: "fold" }, row.open ? "▾ " : "▸ "));
  else if (column.tree) td.append(h("span", { class: "fold" }, "\u2003"));
  td.append(shown instanceof Node ? shown : String(shown ?? "–"));
  return td;
}

export function table(columns, rows, { sort, down = true, click, filter, caption, open } = {}) {
  let by = sort, falling = down, word = "", limit = PAGE;
  const head = h("tr"), body = h("tbody"), more = h("button", { class: "quiet", onclick: () => { limit += 5 * PAGE; draw(); } });
  const value = (column, row) => (column.value ? column.value(row) : row[column.key]);
  const matches = (row) => !word || columns.some((c) => String(value(c, row) ?? "").toLowerCase().includes(word)) || (row.children || []).some(matches);

  function ordered(list) {
    const column = columns.find((c) => c.key === by);
    const kept = list.filter(matches);
    if (!column) return kept;
    const way = falling ? -1 : 1;
    return kept.slice().sort((a, b) => {
      const x = value(column, a), y = value(column, b);
      if (x === y) return 0;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (typeof x === "string" ? x.localeCompare(y) : x - y) * way;
    });
  }

  function flat(list, depth, out) {
    for (const row of ordered(list)) {
      out.push([row, depth]);
      if (row.children && (row.open || word)) flat(row.children, depth + 1, out);
    }
    return out;
  }

  function activate(row) {
    if (row.children) { row.open = !row.open; draw(); }
    if (click) click(row);
  }

  function draw() {
    replace(head, columns.map((c) => h("th", { class: c.left ? "left" : "", scope: "col", "aria-sort": c.key === by ? (falling ? "descending" : "ascending") : "none" },
      h("button", { class: "sort", onclick: () => { falling = c.key === by ? !falling : !c.left; by = c.key; draw(); } }, c.name, c.unit ? h("span", { class: "unit" }, ` ${c.unit}`) : null, c.key === by ? (falling ? " ↓" : " ↑") : ""))));
    const all = flat(rows, 0, []);
    replace(body, all.slice(0, limit).map(([row, depth]) => {
      const live = row.children || click;
      const tr = h("tr", { class: live ? "live" : "", tabindex: live ? "0" : null, onclick: live ? () => activate(row) : null,
        onkeydown: live ? (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); activate(row); } } : null });
      tr.append(...columns.map((c) => cell(c, row, depth)));
      return tr;
    }));
    more.textContent = `${(all.length - limit).toLocaleString("en-US")} more rows`;
    more.hidden = all.length <= limit;
  }

  if (open) for (const row of rows) row.open = open(row);
  const input = filter === false || rows.length < 8 ? null : h("input", { type: "search", class: "filter", placeholder: "filter", "aria-label": "filter rows", oninput: (e) => { word = e.target.value.toLowerCase(); limit = PAGE; draw(); } });
  draw();
  return h("div", { class: "tabled" }, input, h("div", { class: "scrolls" }, h("table", {}, caption ? h("caption", {}, caption) : null, h("thead", {}, head), body)), more);
}
