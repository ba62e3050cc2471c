"""Prices as rows: what `trine prices` holds, what prices.json adds, and what the user's file puts in their stead.

Every row has a region, a date and a source. A user's file has the shape of prices.json: machines with their prices (or what
one costs to buy) and inputs; a row replaces the one of the same machine and way, or of the same name.
"""

import datetime
import json
import subprocess
from pathlib import Path

from trine.command import OUTSIDE, USAGE, Stop

HERE = Path(__file__).parent
STALE_DAYS = 90
RENTS = ("on-demand", "reserved", "reserved, 3 years", "capacity block", "spot", "owned")
NEEDED = {"way": str, "usd_per_hour": (int, float), "region": str, "date": str, "from": str}


def read(path):
    try:
        found = json.loads(Path(path).read_text())
    except OSError as e:
        raise Stop(OUTSIDE, f"{path}: {e.strerror}") from None
    except ValueError as e:
        raise Stop(USAGE, f"{path}: found no JSON ({e}), expected machines and inputs as docs/tco.md shows") from None
    if not isinstance(found, dict):
        raise Stop(USAGE, f"{path}: found a {type(found).__name__}, expected an object with machines and inputs")
    return found


def checked(row, where):
    """The row, with what an incomplete one lacks in the message."""
    for key, kind in NEEDED.items():
        if not isinstance(row.get(key), kind):
            raise Stop(USAGE, f"{where}: found {key} {row.get(key)!r}, expected {'a number' if key == 'usd_per_hour' else 'a text'}")
    if row["way"] not in RENTS:
        raise Stop(USAGE, f"{where}: found way {row['way']!r}, expected one of {'; '.join(RENTS)}")
    if not 0 <= row["usd_per_hour"] < float("inf"):  # what is no number is neither
        raise Stop(USAGE, f"{where}: found {row['usd_per_hour']} USD an hour, expected no less than 0")
    return row


def listed(table, key, where):
    """The objects of a list, which may be missing."""
    rows = table.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise Stop(USAGE, f"{where}: found {key} {str(rows)[:60]!r}, expected a list of objects as docs/tco.md shows")
    return rows


def banded(row, where):
    """An input: a number with its name, between its low and its high where it has them."""
    values = [row.get(k, row.get("is")) for k in ("low", "is", "high")]
    if not isinstance(row.get("name"), str) or not all(isinstance(v, (int, float)) and abs(v) < float("inf") for v in values):
        raise Stop(USAGE, f"{where}, {row.get('name')}: found {row.get('is')!r}, expected a name and a number")
    if values != sorted(values):
        raise Stop(USAGE, f"{where}, {row['name']}: found low, is, high {values}, expected them in that order")
    return row


class Prices:
    """`hourly` by machine and way, `buy` by machine, `inputs` by name, each a row; `chips` by machine: which, and how many."""

    def __init__(self, trine, path=None):
        self.hourly, self.buy, self.inputs, self.chips = {}, {}, {}, {}
        table = json.loads(subprocess.run([trine, "prices", "--json"], capture_output=True, text=True, check=True).stdout)
        self.add(table, "trine prices")
        self.add(read(HERE / "prices.json"), "prices.json")
        if path:
            self.add(read(path), str(path))

    def add(self, table, where):
        for machine in listed(table, "machines", where):
            name = machine.get("name")
            if "chip" in machine:
                self.chips[name] = (machine["chip"], machine["chips"])
            for row in listed(machine, "prices", f"{where}, {name}"):
                self.hourly.setdefault(name, {})[row.get("way")] = checked(row, f"{where}, {name}")
            if machine.get("buy"):
                if not isinstance(machine["buy"], dict) or not isinstance(machine["buy"].get("usd"), (int, float)):
                    raise Stop(USAGE, f"{where}, {name}: found buy {machine['buy']!r}, expected usd, date, region and from")
                self.buy[name] = machine["buy"]
        for row in listed(table, "inputs", where):
            self.inputs[row.get("name")] = banded(row, where)

    def rows(self):
        """[(what, way, row)] of all, for the sheet and for the check."""
        out = [(name, rent, row) for name, rents in self.hourly.items() for rent, row in rents.items()]
        out += [(name, "to buy", {**row, "usd_per_hour": None}) for name, row in self.buy.items()]
        return out + [(name, row.get("unit", ""), row) for name, row in self.inputs.items()]

    def stale(self, today):
        """Rows that are older than STALE_DAYS, or whose source gives no day."""
        found = []
        for name, rent, row in self.rows():
            try:
                days = (today - datetime.date.fromisoformat(row.get("date", ""))).days
            except ValueError:
                days = None
            if days is None or days > STALE_DAYS:
                found.append({"machine": name, "way": rent, "date": row.get("date"), "days": days, "from": row.get("from")})
        return found
