"""docs/accuracy.md, which `make check` holds in step: how far predictions may be from what was published."""

import pytest

TIMES_PCT, SHARES_POINTS = 5, 5
SOURCES_OF_MODELS = ("encoders", "cnn", "llm", "profiles", "training")


def rows(request):
    return table((request.config.rootpath / "docs/accuracy.md").read_text().partition("## Whole models")[0])


def table(text):
    lines = text.splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    names = cells[0]
    return [dict(zip(names, row)) for row in cells[1:]]


def test_published_times_are_met(request):
    checked = [r for r in rows(request) if r["role"] == "check" and r["what"].startswith("time")]
    assert len(checked) >= 8
    for r in checked:
        assert abs(float(r["error"].split()[0])) <= TIMES_PCT, r


def test_published_collectives_are_met(request):
    """Up to 4 MiB closely; above, docs/accuracy.md says what is not modelled. Bands of sizes are no times."""
    checked = [r for r in rows(request) if r["what"] in ("launched_us", "device_us", "crossover_mb")]
    errors = sorted(abs(float(r["error"].split()[0])) for r in checked if r["role"] == "check")
    assert len(errors) >= 13
    assert errors[len(errors) // 2] <= 12 and errors[-1] <= 31


def test_gates_are_met(request):
    gates = [r for r in rows(request) if r["role"] == "gate"]
    assert len(gates) >= 2
    for r in gates:
        assert float(r["predicted"]) <= float(r["measured"].strip("≤ ")), r


def test_published_models_are_met(request):
    part = (request.config.rootpath / "docs/accuracy.md").read_text().partition("## Whole models")[2]
    found = [r for r in table(part[part.index("| id ") :]) if r["what"] in ("p50_ms", "device_ms")]
    errors = sorted(abs(float(r["error"].strip("%"))) for r in found)
    assert len(errors) >= 23 and errors[len(errors) // 2] <= 20
    assert part.count("\n- ") - len(SOURCES_OF_MODELS) >= sum(e > 30 for e in errors)  # each is explained
    assert "not explained" not in part


@pytest.mark.parametrize("variant", ["tiled", "hoisted", "blocked", "blocked-k"])
def test_traced_and_written_matmuls_agree(request, variant):
    predicted = {r["id"]: float(r["predicted"]) for r in rows(request)}
    traced, written = predicted[f"nki-matmul-{variant}-f32"], predicted[f"matmul-{variant}-f32"]
    assert traced == pytest.approx(written, rel=TIMES_PCT / 100)
    share = f"matmul-{variant}-f32-tensor"
    assert predicted[f"nki-{share}"] == pytest.approx(predicted[share], abs=SHARES_POINTS)
