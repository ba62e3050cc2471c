// Numbers as people read them: three digits and a unit. Never used to compute what is shown.

const thin = "\u202f";

function scaled(value, units, step) {
  let i = 0;
  let v = Math.abs(value);
  while (v >= step * 0.9995 && i < units.length - 1) { v /= step; i++; }
  return [Math.sign(value) * v, units[i]];
}

export function digits(value, count = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 10 ** count) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(count)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}

export function time(ns, count = 3) {
  if (ns === null || ns === undefined) return "–";
  const [v, unit] = scaled(ns, ["ns", "µs", "ms", "s"], 1000);
  return digits(v, count) + thin + unit;
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const [v, unit] = scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  return digits(v) + thin + unit;
}

export function count(n) {
  if (n === null || n === undefined) return "–";
  if (Math.abs(n) < 1e5) return Math.round(n).toLocaleString("en-US");
  const [v, unit] = scaled(n, ["", "k", "M", "G", "T", "P"], 1000);
  return digits(v) + (unit ? thin + unit : "");
}

export function percent(share, count = 3) {
  return share === null || share === undefined ? "–" : digits(100 * share, count) + thin + "%";
}

export function usd(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value), sign = value < 0 ? "−$" : "$";
  if (size < 1000) return sign + (size < 10 ? size.toFixed(2) : Math.round(size).toString());
  const [v, unit] = scaled(size, ["", "k", "M", "G"], 1000);
  return sign + digits(v) + unit;
}

export const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
