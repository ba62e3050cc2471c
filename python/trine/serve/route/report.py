"""What a log says: cost against quality for every threshold, with bands, beside always-small, always-large and chance.

Quality is a row's own `quality` ({"local": x, "remote": y}, 0 to 1) or, of shadowed rows, how far the small model's answer
agrees with the large one's. Rows with one side only count for what was spent, not for the curve.
"""

import collections
import json

import numpy as np

THRESHOLDS = 21
DRAWS = 500


def rows_of(path):
    out = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed
            if isinstance(row, dict) and row.get("side") in ("local", "remote"):
                out.append(row)
    return out


def agreement(a, b):
    """F1 of the words of two answers."""
    one, two = collections.Counter((a or "").lower().split()), collections.Counter((b or "").lower().split())
    both = sum((one & two).values())
    return 2 * both / (sum(one.values()) + sum(two.values())) if one or two else 1.0


def qualities(row):
    given = row.get("quality")
    if isinstance(given, dict) and {"local", "remote"} <= set(given):
        return float(given["local"]), float(given["remote"])
    return agreement(row["local"].get("text"), row["remote"].get("text")), 1.0


def table_of(rows):
    """Arrays need, cost and quality of both sides, of the rows that have both."""
    both = [r for r in rows if isinstance(r.get("local"), dict) and isinstance(r.get("remote"), dict) and r.get("need") is not None
            and r["local"].get("text") is not None and r["remote"].get("text") is not None]  # fmt: skip
    if not both:
        return None
    need = np.array([float(r["need"]) for r in both])
    cost = np.array([[r["local"].get("usd") or 0.0, r["remote"].get("usd") or 0.0] for r in both])
    quality = np.array([qualities(r) for r in both])
    cascade = np.array([r.get("policy") == "cascade" for r in both])
    return need, cost, quality, cascade


def at_threshold(need, cost, quality, cascade, threshold):
    """(share of the large model, dollars a request, quality). A cascade that escalates has paid the small model too."""
    goes = need > threshold
    paid = np.where(goes, cost[:, 1] + np.where(cascade, cost[:, 0], 0.0), cost[:, 0])
    return goes.mean(), paid.mean(), np.where(goes, quality[:, 1], quality[:, 0]).mean()


def curve_of(table, seed=0):
    need, cost, quality, cascade = table
    random = np.random.default_rng(seed)
    draws = random.integers(0, len(need), (DRAWS, len(need)))
    rows = []
    for threshold in np.linspace(0, 1, THRESHOLDS):
        share, usd, good = at_threshold(need, cost, quality, cascade, threshold)
        bands = np.array([at_threshold(need[d], cost[d], quality[d], cascade[d], threshold)[2] for d in draws])
        low, high = np.percentile(bands, [5, 95])
        chance = quality[:, 0].mean() + share * (quality[:, 1] - quality[:, 0]).mean()
        rows.append({"threshold": round(float(threshold), 3), "remote_share": float(share), "usd_per_request": float(usd), "quality": float(good),
                     "quality_low": float(low), "quality_high": float(high), "quality_by_chance": float(chance)})  # fmt: skip
    return rows


def summary_of(table, curve):
    """APGR: the mean share of the gap that is recovered; CPT: the share of large calls that recovers x % of it."""
    _, cost, quality, _ = table
    weak, strong = quality[:, 0].mean(), quality[:, 1].mean()
    gap = strong - weak
    out = {"quality_local": float(weak), "quality_remote": float(strong), "usd_local": float(cost[:, 0].mean()), "usd_remote": float(cost[:, 1].mean())}
    if abs(gap) > 1e-9:
        points = sorted({(0.0, 0.0), (1.0, 1.0), *((r["remote_share"], (r["quality"] - weak) / gap) for r in curve)})
        xs, ys = np.array(points).T
        out["apgr"] = float(np.sum((xs[1:] - xs[:-1]) * (ys[1:] + ys[:-1]) / 2))
        for wanted in (50, 80, 95):
            shares = [r["remote_share"] for r in curve if (r["quality"] - weak) / gap >= wanted / 100]
            out[f"cpt_{wanted}"] = min(shares) if shares else None
    gain = np.maximum(quality[:, 0], quality[:, 1]).mean()
    out["quality_oracle"] = float(gain)
    return out


def report_of(path):
    rows = rows_of(path)
    sides = collections.Counter(r["side"] for r in rows)
    spent = {side: sum((r.get(side) or {}).get("usd") or 0.0 for r in rows) for side in ("local", "remote")}
    waits = sorted((r.get(r["side"]) or {}).get("ttft_s") or 0.0 for r in rows)
    out = {"version": 1, "report": "route", "log": str(path), "requests": len(rows), "local": sides["local"], "remote": sides["remote"],
           "fell_back": sum(1 for r in rows if r.get("fell_back")), "usd": spent, "ttft_p50_s": waits[len(waits) // 2] if waits else None}  # fmt: skip
    table = table_of(rows)
    if table is not None:
        out["compared"] = len(table[0])
        out["curve"] = curve_of(table)
        out["summary"] = summary_of(table, out["curve"])
    return out


def printed(report):
    total = report["usd"]["local"] + report["usd"]["remote"]
    lines = [f"{report['requests']:,} requests: {report['local']:,} answered here, {report['remote']:,} by the large model, {report['fell_back']:,} fell back",
             f"  spent  ${total:.6f}  (here ${report['usd']['local']:.6f}, large ${report['usd']['remote']:.6f})"]  # fmt: skip
    if "curve" not in report:
        return "\n".join([*lines, "", "no request was answered by both; --shadow 0.1 compares a tenth of them"])
    s = report["summary"]
    lines += [f"  compared  {report['compared']:,} answered by both: quality {s['quality_local']:.3f} here, {s['quality_remote']:.3f} large, {s['quality_oracle']:.3f} with perfect choice", ""]
    from trine.text import columns

    head = ["threshold", "to large", "$ / 1000", "quality", "90 % band", "by chance"]
    rows = [[f"{r['threshold']:.2f}", f"{100 * r['remote_share']:.0f} %", f"{1e3 * r['usd_per_request']:.4f}", f"{r['quality']:.3f}",
             f"{r['quality_low']:.3f} – {r['quality_high']:.3f}", f"{r['quality_by_chance']:.3f}"] for r in report["curve"][::2]]  # fmt: skip
    lines += ["  " + line for line in columns([head, *rows], right=range(6))]
    if "apgr" in s:
        need = s["cpt_95"]
        lines += ["", f"  APGR {s['apgr']:.2f} (chance 0.50)" + (f"; 95 % of the gap needs {100 * need:.0f} % large calls" if need is not None else "")]
    return "\n".join(lines)
