"""What a year on a machine costs: the inputs with their bands, and the lines that follow from them.

LINES is the whole arithmetic; the terminal, the Monte Carlo and the spreadsheet's own formulas all come from it.
"""

import dataclasses

from trine.decide.formula import evaluate

# Of the workload and the company; name, low, likely, high, unit, source. Prices' inputs join them.
SHARED = [
    ("months", None, 12, None, "months", "asked"),
    ("tokens_per_day", 0.7, 1e9, 1.5, "generated tokens", "asked; the band is a factor"),
    ("peak_factor", 1.5, 2.5, 5.0, "peak over mean", "estimate: Azure's LLM traces peak at 3 times their mean"),
    ("duty", None, 1.0, None, "share of hours with load", "asked"),
    ("utilisation", 0.4, 0.6, 0.8, "of a machine's saturated rate", "estimate: what leaves room for the tail"),
    ("autoscaled", None, 1, None, "1: machines follow the load, 0: as many as the peak needs", "asked"),
    ("scaling_loss", 0.05, 0.1, 0.25, "of autoscaled hours: starting, draining, whole machines", "estimate"),
    ("bytes_per_token", 5, 20, 200, "sent to the user", "estimate: text with the frame of a stream's event"),
    ("stored_gb", 50, 200, 2000, "GB", "estimate: weights, compiled programs, logs"),
    ("price_drift", -0.25, -0.1, 0.05, "a year", "estimate: AWS cut P5 by 44 % in 2025, Trn1 not at all"),
    ("device_hours_per_stop", 25000, 50700, 100000, "h", "doc: Llama 3, 419 stops of 16,384 GPUs in 54 days"),
    ("recovery_hours", 0.1, 0.5, 2.0, "h", "estimate"),
    ("spares", 0.0, 0.02, 0.05, "of machines", "estimate"),
    ("spot_loss", 0.03, 0.1, 0.3, "of spot hours: interrupted work and what waits", "estimate"),
    ("upkeep_hours_per_month", 2, 8, 24, "h, where the program was ported", "estimate"),
    ("owned_months", 36, 48, 60, "months over which a bought machine is written off", "estimate"),
    ("server_factor", 1.3, 1.6, 2.0, "host, network and rack over the accelerators' price", "estimate"),
    ("service_share", 0.10, 0.12, 0.15, "of the price, a year", "estimate: 10-15 % a year"),
    ("pue", 1.1, 1.25, 1.6, "building over machine", "doc: public cloud 1.25, on premises 1.63 (IDC), best 1.1"),
]

# Of a machine: chips, tokens_per_s, usd_per_hour, port_hours, compile_hours, watts, buy_usd, and what its way to rent is.
LINES = [
    ("hours", "h", "months * 730"),
    ("mean_tokens_per_s", "tokens/s", "tokens_per_day / 86400 / duty"),
    ("machines_mean", "machines", "mean_tokens_per_s / (tokens_per_s * utilisation)"),
    ("machines_peak", "machines", "ceil(mean_tokens_per_s * peak_factor / tokens_per_s)"),
    ("machines_held", "machines", "max(machines_peak, ceil(machines_mean))"),
    ("hours_scaled", "h", "hours * duty * max(1, machines_mean) * (1 + scaling_loss)"),
    ("hours_held", "h", "hours * machines_held"),
    ("follows_load", "1 or 0", "where(committed + (1 - autoscaled) > 0, 0, 1)"),
    ("machine_hours", "h", "where(follows_load > 0, where(hours_scaled < hours_held, hours_scaled, hours_held), hours_held)"),
    ("lost_to_stops", "share", "chips * recovery_hours / device_hours_per_stop"),
    ("paid_hours", "h", "machine_hours * (1 + lost_to_stops + spares + spot * spot_loss)"),
    ("drift", "factor", "where(price_drift != 0, ((1 + price_drift) ** (months / 12) - 1) / (log(1 + price_drift) * months / 12), 1)"),
    ("rent_usd", "USD", "paid_hours * usd_per_hour * where(committed > 0, 1, drift)"),
    ("owned_usd", "USD", "owned * buy_usd * server_factor * machines_held * (1 + spares) * months * (1 / owned_months + service_share / 12)"),
    ("power_usd", "USD", "owned * paid_hours * watts * server_factor / 1000 * pue * power_usd_per_kwh"),
    ("egress_usd", "USD", "tokens_per_day * 365 / 12 * months * bytes_per_token / 1e9 * egress_usd_per_gb"),
    ("storage_usd", "USD", "stored_gb * storage_usd_per_gb_month * months"),
    ("compile_usd", "USD", "compile_hours * months * usd_per_hour"),
    ("port_usd", "USD", "port_hours * engineer_usd_per_hour"),
    ("upkeep_usd", "USD", "ported * upkeep_hours_per_month * months * engineer_usd_per_hour"),
    ("total_usd", "USD", "rent_usd + owned_usd + power_usd + egress_usd + storage_usd + compile_usd + port_usd + upkeep_usd"),
    ("usd_per_million_tokens", "USD", "total_usd / (tokens_per_day * 365 / 12 * months / 1e6)"),
]  # fmt: skip
PARTS = ("rent_usd", "owned_usd", "power_usd", "egress_usd", "storage_usd", "compile_usd", "port_usd", "upkeep_usd")


@dataclasses.dataclass
class Input:
    """A number with its band, where it comes from, and how it is called for people."""

    name: str
    low: float
    likely: float
    high: float
    unit: str
    source: str

    @property
    def fixed(self):
        return self.low == self.high


@dataclasses.dataclass
class Machine:
    """One machine rented, or owned, in one way: its own inputs by name, and the words for its speed's source."""

    name: str
    family: str
    rent: str
    inputs: dict
    basis: str
    kind: str  # of the basis: measured, published, roofline, modelled
    price: dict | None  # the row, None where no price is known
    others: list = dataclasses.field(default_factory=list)  # speeds of other kinds
    lines: list = dataclasses.field(default_factory=lambda: LINES)  # of its year; training has its own

    @property
    def title(self):
        return f"{self.name}, {self.rent}"


def shared_inputs(asked, prices, rows=SHARED):
    """The workload's and the company's inputs; `asked` holds what the user gave."""
    out = {}
    for name, low, likely, high, unit, source in rows:
        likely = asked.get(name, likely)
        if name == "tokens_per_day":
            low, high = low * likely, high * likely
        if low is None:
            low = high = likely
        out[name] = Input(name, min(low, likely), likely, max(high, likely), unit, source)
    for name, row in prices.inputs.items():
        source = f"{row.get('from', '')}, {row.get('date', '')}"
        out[name] = Input(name, row.get("low", row["is"]), row["is"], row.get("high", row["is"]), row.get("unit", ""), source)
    return out


def at(inputs, point="likely"):
    return {name: getattr(i, point) for name, i in inputs.items()}


def lines_of(shared, machine, **changed):
    """All lines of a machine with every input at its likely value, but those in `changed`."""
    return evaluate(machine.lines, {**at(shared), **at(machine.inputs), **changed})
