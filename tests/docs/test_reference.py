"""Pages written by hand say what the code has: environment variables, the graph's text, the folders."""

import re
from pathlib import Path

import numpy as np

from trine import _core

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"\"((?:TRINE|NEURON|NKI|AWS|XDG|JAX)_[A-Z0-9_]+|NO_COLOR)\"")
OTHERS = {"JAX_PLATFORMS", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"}  # read by others, or named in a sentence
OURS_ALONE = {"TRINE_COLLECTED_GRAPHS", "TRINE_PROFILE_RECORD"}  # from one of our processes to another


def variables_of_the_code():
    files = [f for folder in ("src", "python") for f in (ROOT / folder).rglob("*") if f.suffix in (".cpp", ".h", ".py")]
    return {name for f in files for name in NAME.findall(f.read_text())} - OURS_ALONE


def variables_of_the_page():
    text = (ROOT / "docs/settings.md").read_text()
    return set(re.findall(r"`((?:TRINE|NEURON|NKI|AWS|XDG|JAX)_[A-Z0-9_]+|NO_COLOR)`", text))


def test_every_environment_variable_is_on_the_page():
    assert variables_of_the_code() - variables_of_the_page() - OTHERS == set()


def test_the_page_names_no_variable_that_nothing_reads():
    assert variables_of_the_page() - variables_of_the_code() - OTHERS == set()


def test_the_example_of_a_graph_is_one():
    text = (ROOT / "docs/graph.md").read_text()
    (graph,) = re.findall(r"^```\n(graph .*?)^```", text, re.M | re.S)
    zeros = [bytes(24), (5).to_bytes(4, "little")]  # %1 is 5: not below 1, so the loop does not run
    ((dtype, shape, data),) = _core.evaluate(graph, [np.frombuffer(z, np.uint8) for z in zeros])
    assert (dtype, shape, data) == ("f32", (2, 3), bytes(24))


def test_every_folder_of_the_source_has_its_row_and_its_readme():
    listed = re.findall(r"^\| \[(\w+)\]\(\.\./src/(\w+)\)", (ROOT / "docs/architecture.md").read_text(), re.M)
    there = {line.split(":")[0] for line in (ROOT / "src/layers.txt").read_text().splitlines() if line and not line.startswith("#")}
    assert {name for name, _ in listed} == {folder for _, folder in listed} == {f for f in there if (ROOT / "src" / f).exists()}
    assert all((ROOT / "src" / folder / "README.md").exists() for _, folder in listed)
