// Elements from plain calls. Text is always text: nothing here writes HTML.

export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "style") Object.assign(element.style, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// A number with its word below, for the head of a view.
export function fact(value, word, more = "") {
  return h("div", { class: "fact" }, h("div", { class: "fact-value" }, value), h("div", { class: "fact-word" }, word), more ? h("div", { class: "fact-more" }, more) : null);
}

// A share as a bar beside its number.
export function bar(share, colour = "var(--first)", title = "") {
  const wide = Math.max(0, Math.min(1, share || 0));
  return h("span", { class: "bar", title, role: "img", "aria-label": `${Math.round(100 * wide)} %` }, h("span", { style: { width: `${100 * wide}%`, background: colour } }));
}
