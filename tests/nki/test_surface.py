"""Every public name of NKI is here, with its parameters, or is said to be lacking: surface.txt against trine.nki."""

import importlib
import inspect
from pathlib import Path

import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine.nki import NkiError, lacking

LINES = [line.split("\t") for line in Path(__file__).with_name("surface.txt").read_text().splitlines() if line[0] != "#"]
SKIPPED = {
    # What one release's stubs show of NKI's own simulator.
    "nki.language.NkiTensor.is_identity", "nki.language.NkiTensor.sim_value", "nki.language.NkiTensor.device_value",
}  # fmt: skip


def find(name):
    """What a dotted name means, by the import names of python/compat; None where there is no such thing."""
    parts = name.replace("neuronxcc.nki.tensor.", "trine.nki.old.tile.Tile.").split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found
    return None


def takes(function):
    parameters = inspect.signature(function).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return [n for n in parameters if n != "self"], open_ended


@pytest.mark.parametrize("package", ["nki", "neuronxcc.nki"])
def test_every_public_name_is_here_or_said_to_be_lacking(package):
    wanted = {line[0].partition("(")[0] for line in LINES if line[0].startswith(package + ".")} - SKIPPED
    assert len(wanted) > 200
    lacks = {name for name in wanted if find(name) is None}
    said = {*lacking.CURRENT, *lacking.OLD}
    assert not [name for name in lacks if not any(name == s or name.startswith(s + ".") for s in said)]


def test_every_parameter_of_the_newest_release_is_taken_in_its_order():
    wrong = {}
    for line, source in LINES:
        name, bracket, rest = line.partition("(")
        if not bracket or not source.endswith("2.32") or name.count(".") > 2 or find(name) is None:
            continue
        wanted = rest.removesuffix(")").split(", ") if rest != ")" else []
        ours, open_ended = takes(find(name))
        if not open_ended and [p for p in ours if p in wanted] != wanted:
            wrong[name] = (wanted, ours)
    assert not wrong


@pytest.mark.parametrize("module, name, near", [
    (nl, "p_dim", "nl.par_dim"), (nisa, "tensor_tenor", "nisa.tensor_tensor"), (nl, "afine_range", "nl.affine_range"),
    (nki, "simulat", "nki.simulate"),
])  # fmt: skip
def test_a_name_that_is_not_there_gets_the_nearest(module, name, near):
    with pytest.raises(NkiError, match="NKI001") as caught:
        getattr(module, name)
    assert near in caught.value.fix
    assert not hasattr(module, "zzzzzzzz")


def test_what_a_kernel_library_imports_means_something():
    from nki.dtype import float8_e4m3fn_x4
    from nki.isa.constants import dge_mode, oob_mode

    assert float8_e4m3fn_x4 is nl.float8_e4m3fn_x4
    assert dge_mode is nisa.dge_mode and oob_mode is nisa.oob_mode
    assert list(nl.range(2, 8, 3)) == [2, 5]
