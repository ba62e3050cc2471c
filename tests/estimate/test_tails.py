"""tails.json is what the published rows say."""

import json
import statistics
from pathlib import Path

import trine.estimate

HERE = Path(trine.estimate.__file__).parent


def test_tails_are_those_of_the_rows():
    rows = json.loads((HERE.parents[2] / "src/run/accuracy/measurements.json").read_text())
    ratios = {"decode": {}, "other": {}}
    for row in rows["models"]:
        if row.get("p99") and "p50" in row["metric"]:
            ratios["decode" if row["phase"] == "decode" else "other"][row["case"]] = row["p99"] / row["value"]
    for name, of in ratios.items():
        values = sorted(of.values())
        found = {"rows": len(values), "median": round(statistics.median(values), 2), "p90": round(values[int(0.9 * len(values))], 2)}
        assert found == json.loads((HERE / "tails.json").read_text())[name]
