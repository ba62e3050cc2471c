"""The text-test grammar, against the examples of docs/testing.md."""

import pytest
from text_lines import GrammarError, Operand, Tolerance, block_matches, parse, replace_block


def test_case_with_operand_keys_and_tolerance():
    (line,) = parse("# softmax C2: rows sum to one   tags: float\ncase f32[4,1000] axis=1  random seed=7   expect reference  tol 2ulp\n")
    assert line.title == "softmax C2: rows sum to one" and line.tags == {"float"}
    assert line.operands == [Operand("f32", (4, 1000))] and line.words == ["random"]
    assert line.keys == {"axis": 1, "seed": 7}
    assert line.expect == ["reference"] and line.tol == Tolerance(2, "ulp")


def test_values_of_keys():
    (line,) = parse("case add dst=bf16[128,2] scale=0.5 op='a b' on=true dims=[1,2] mode=skip at=0x10 expect max=1e-3 tags: slow wide")
    assert line.keys == {
        "dst": Operand("bf16", (128, 2)), "scale": 0.5, "op": "a b", "on": True, "dims": [1, 2], "mode": "skip", "at": 16,
    }  # fmt: skip
    assert line.expect_keys == {"max": 1e-3} and line.tags == {"slow", "wide"} and line.words == ["add"]


def test_error_line_keeps_its_pattern():
    (line,) = parse("error f32[4] axis=3    ~ axis 3 is out of range for rank 1\n")
    assert line.error == "axis 3 is out of range for rank 1" and line.keys == {"axis": 3}


def test_blocks_input_and_exit():
    text = "run asm -\n  wait s0\n    add\n----\na\n\nb\n----\nexit 2\n\nrun ls\n"
    first, second = parse(text, frozenset({"run"}))
    assert (first.text, first.input, first.exit) == ("asm -", "wait s0\n  add\n", 2)
    assert first.expected == ["a", "", "b"] and second.expected is None and second.number == 11


@pytest.mark.parametrize("bad", ["  indented", "exit 2", "case a=1 a=2", "case [1", "case x expect y tol soft", "run\n----\nx", "error ~ ["])
def test_what_cannot_be_read_is_refused_with_its_line(bad):
    with pytest.raises(GrammarError, match="line 2"):
        parse("# title\n" + bad)


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["...", "b"], ["x", "y", "b"], True),
        (["a", "...", "c", "..."], ["a", "c", "c", "d"], True),
        (["..."], [], True),
        (["~ ^time +[0-9]+ ms"], ["time   28 ms"], True),
        (["~ ^time"], ["a time"], False),
        (["a", "..."], ["b"], False),
    ],
)
def test_block_matching(want, got, same):
    assert block_matches(want, got) is same


def test_update_rewrites_each_block_in_its_place(tmp_path):
    file = tmp_path / "a.test"
    file.write_text("run a\n----\nold\n----\n\nrun b\n----\nold\n----\n")
    lines = parse(file.read_text(), frozenset({"run"}))
    replace_block(file, lines, lines[0], ["one", "two", "three"])
    replace_block(file, lines, lines[1], ["four"])
    assert file.read_text() == "run a\n----\none\ntwo\nthree\n----\n\nrun b\n----\nfour\n----\n"
