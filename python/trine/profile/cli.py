"""`trine profile`, `neuron-profile` and `neuron-explorer`: capture, view, compare, inspect. Options are those of the row in
src/tools/commands/profile.cpp."""

import os
import pathlib
import sys

from trine import command
from trine.command import Stop

FORMATS = ("summary-text", "summary-json", "json", "parquet", "perfetto", "db", "xspace", "kineto")


def run(asked) -> int:
    verb, words = asked.words[0], asked.words[1:]
    verbs = {"capture": _capture, "inspect": _inspect, "view": _view, "compare": _compare}
    return verbs[verb](asked, [w for i, w in enumerate(words) if not (w == "--" and i == 0)])


def _capture(asked, words):
    from trine.profile import capture

    path = asked.output or asked.session_file or "profile.ntff"
    events = int(asked.events) if asked.events else None
    if asked.neff:
        info = capture.of_program(asked.neff, path, asked.instance, events, int(asked.num_exec or 1))
        capture.tell(info, path)
        return command.OK
    if not words:
        raise Stop(command.USAGE, "found no command, expected one after --: trine profile capture -o profile.ntff -- python train.py")
    code, info = capture.of_command(words, path, asked.instance, asked.auto_cast or "none", events)
    if info is None:
        print(f"trine profile: {words[0]} ran no program on a virtual NeuronCore: there is no {path}", file=sys.stderr)
        return code or command.CHECK_FAILED
    capture.tell(info, path)
    return code if code >= 0 else 128 - code


def _inspect(asked, words):
    folder = pathlib.Path(asked.output_dir or "output")
    folder.mkdir(parents=True, exist_ok=True)
    asked.options["output"] = str(folder / "profile.ntff")
    return _capture(asked, words)


def _found(asked, words):
    """The profile that is meant: a word, -s, or the only one of -d's folder."""
    if words or asked.session_file:
        return words[0] if words else asked.session_file
    if asked.session_dir:
        found = sorted(pathlib.Path(asked.session_dir).rglob("*.ntff"), key=os.path.getmtime)
        if not found:
            raise Stop(command.OUTSIDE, f"found no .ntff file in {asked.session_dir}")
        return str(found[-1])
    if os.path.exists("profile.ntff"):
        return "profile.ntff"
    raise Stop(command.USAGE, "found no profile, expected one: trine profile view profile.ntff")


def _open(path):
    from trine import profile

    try:
        return profile.open(path)
    except ValueError as e:
        raise Stop(command.UNSUPPORTED, str(e)) from None


def _core(asked, path):
    """A core dump has its own page."""
    from trine.pages import core

    try:
        if html := asked.options.get("html"):
            core.write_html(path, html)
            print(f"page → {html}")
            return command.OK
        return core.serve(path, port=int(asked.port or 0)) or command.OK
    except ValueError as e:
        raise Stop(command.UNSUPPORTED, str(e)) from None


def _view(asked, words):
    path = _found(asked, words)
    if path.endswith(".json") and not asked.output_format:
        return _core(asked, path)
    profile = _open(path)
    form = asked.output_format or ("summary-json" if asked.json else None)
    if form is None:
        from trine.pages import profile as page
        from trine.profile import viewing

        before, html = asked.options.get("before"), asked.options.get("html")
        before = _open(before).path if before else None
        if html:
            page.write_html(profile.path, html, before)
            print(f"page → {html}")
            return command.OK
        print(viewing.text(profile), flush=True)
        return page.serve(profile.path, before, port=int(asked.port or 0)) or command.OK
    from trine.profile import viewing

    return viewing.write(profile, form, asked.output_file)


def _compare(asked, words):
    from trine.profile import comparing, to_json

    if len(words) != 2:
        raise Stop(command.USAGE, "expected two profiles: trine profile compare before.ntff after.ntff")
    found = comparing.compare(_open(words[0]), _open(words[1]))
    print(to_json(found) if asked.json else comparing.text(found))
    return command.OK
