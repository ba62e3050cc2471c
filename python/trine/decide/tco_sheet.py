"""The TCO as a spreadsheet whose formulas are live: change an input and every machine's year follows."""

from trine.decide.formula import excel
from trine.decide.sheet import Bold, Formula, column, write


def inputs_sheet(shared):
    """Rows of inputs, and where each one's likely value is."""
    rows, where = [[Bold(t) for t in ("input", "likely", "low", "high", "unit", "source")]], {}
    for i in shared.values():
        rows.append([i.name, i.likely, i.low, i.high, i.unit, i.source])
        where[i.name] = f"Inputs!$B${len(rows)}"
    return rows, where


def machines_sheet(machines, where):
    """A column for each machine: its own inputs, then every line as a formula."""
    rows = [[Bold("machine"), Bold("unit"), *(Bold(m.name) for m in machines)]]
    rows += [["way", "", *(m.rent for m in machines)], ["basis", "", *(m.basis for m in machines)]]
    at = {}
    for name, first in machines[0].inputs.items():
        rows.append([name, first.unit, *(m.inputs[name].likely for m in machines)])
        at[name] = len(rows)
    for name, unit, expression in machines[0].lines:
        at[name] = len(rows) + 1

        def formula(letter, expression=expression):
            return Formula(excel(expression, lambda n: where[n] if n in where else f"{letter}${at[n]}"))

        rows.append([name, unit, *(formula(column(3 + i)) for i in range(len(machines)))])
    return rows


def prices_sheet(prices):
    rows = [[Bold(t) for t in ("what", "way or unit", "number", "region", "date", "source")]]
    for name, rent, row in prices.rows():
        number = next((row[k] for k in ("usd_per_hour", "usd", "is") if row.get(k) is not None), None)
        rows.append([name, rent, number, row.get("region", ""), row.get("date", ""), row.get("from", "")])
    return rows


def write_tco(path, shared, machines, prices):
    inputs, where = inputs_sheet(shared)
    columns = [26, 18, *[24] * len(machines)]
    write(path, [("TCO", machines_sheet(machines, where), columns), ("Inputs", inputs, [28, 14, 14, 14, 34, 60]), ("Prices", prices_sheet(prices), [26, 20, 14, 20, 12, 60])])
