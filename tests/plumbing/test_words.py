"""Retired words are found in names of C++, Python and files, and nowhere else."""

import re

import check_words

PAGE = """# Words

| word | what it is | not | retired in names |
|---|---|---|---|
| **iteration** | of a loop | – | turn, trips |
| **place** | where a rank sits | – | – |

| other | table |
|---|---|
| turned | is not retired here |
"""


def found(file, text):
    return check_words.offenders(file, text, check_words.retired(PAGE))


def test_the_list_is_a_column_of_the_page():
    assert check_words.retired(PAGE) == {"turn": "iteration", "trips": "iteration"}


def test_names_are_split_into_words():
    assert check_words.parts("kTurnMax") == ["k", "turn", "max"]
    assert check_words.parts("loop_trips_") == ["loop", "trips"]
    assert check_words.parts("HBMTurn") == ["hbm", "turn"]


def test_a_retired_word_in_a_name_is_caught():
    assert found("src/base/a.cpp", "int a;\nint turn_of(int x);\n") == [
        'src/base/a.cpp:2: turn_of: "turn" is retired; say iteration (docs/words.md)'
    ]
    assert len(found("src/base/a.h", "struct TurnKind {};")) == 1
    assert len(found("python/trine/a.py", "def f(trips):\n    return trips\n")) == 1
    assert len(found("src/base/turn.cpp", "int a;")) == 1


def test_strings_comments_and_longer_words_are_no_names():
    assert found("src/base/a.cpp", '// a turn\nint returned = f("turn", \'t\');  /* turn */\n#include "turn.h"\n') == []
    assert found("src/base/a.cpp", 'auto s = R"(turn)"; int turnaround = 0x1turn;') == []
    assert found("python/trine/a.py", '"""A turn."""\nx = f"{1}turn"  # turn\n') == []


def test_an_exception_holds_only_where_it_is_listed():
    name, files, reason = next(row for row in check_words.ALLOWED if row[1].endswith("registers.py"))
    assert reason and re.fullmatch(name, "trips")
    assert found(files, "trips = 1\n") == []
    assert len(found("python/trine/other.py", "trips = 1\n")) == 1


def test_the_page_itself_retires_words():
    words = check_words.retired((check_words.Path(__file__).parents[2] / "docs/words.md").read_text())
    assert {"turned", "shelf", "complaint", "kept"} <= set(words)
