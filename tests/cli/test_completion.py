"""Completion in real shells: bash and zsh on a terminal, with Tab pressed; fish through its own `complete -C`. And the man
pages, read by man and mandoc. A shell that is not installed is left out; `make test-wheel` installs all of them.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

# What is typed, and words that must then be on the line or among those offered. The folder has a.json, b.npy and d/.
LINES = [
    ("trine esti", ["estimate"]),
    ("trine ls --topo", ["--topology"]),
    ("trine ls --instance trn2.3", ["trn2.3xlarge"]),
    ("trine ls --instance=trn2.3", ["trn2.3xlarge"]),
    ("trine estimate --phase d", ["decode"]),
    ("trine estimate --phase=d", ["decode"]),
    ("trine estimate --compare inf1.xlarge,inf2.xl", ["inf1.xlarge,inf2.xlarge"]),
    ("trine estimate --config llama-3.1-4", ["llama-3.1-405b"]),
    ("trine ls --chip ", ["a.json"]),
    ("trine ls --chip=", ["a.json"]),
    ("trine chips trn", ["trn1", "trn2", "trn3"]),
    ("trine use inf2.4", ["inf2.48xlarge"]),
    ("neuron-ls --show", ["--show-all-procs"]),
]


def need(program):
    path = shutil.which(program)
    if not path:
        pytest.skip(f"{program} is not installed (setup/apt-shells.txt)")
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here/d").mkdir(parents=True)
    (tmp_path / "here/a.json").write_text("{}")
    (tmp_path / "here/b.npy").write_text("")
    return tmp_path / "here"  # HOME is above it


class Terminal:
    """A shell on a terminal of its own, so that its line editor runs."""

    def __init__(self, command, folder):
        self.lines = 0
        env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "TERM": "dumb", "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, env)
        self.run(":")

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, *wanted, seconds=30.0):
        """Reads until all of `wanted` have come; an error where one does not."""
        seen, end = "", time.monotonic() + seconds
        while any(word not in seen for word in wanted):
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{wanted!r} did not come; what came:\n{seen}"
            seen += os.read(self.fd, 65536).decode(errors="replace")

    def run(self, line):
        self.lines += 1
        self.send(f"{line}; echo said$((1000 + {self.lines}))\n")
        self.until(f"said{1000 + self.lines}")

    def tab(self, line, wanted):
        self.send(line + "\t\t")
        last = re.split(r"[ =]", line)[-1]
        one = len(wanted) == 1  # the shell adds what is missing of it; of several it lists all
        self.until(*(word[len(os.path.commonprefix([word, last])) :] if one else word for word in wanted))
        self.send("\x15")  # Ctrl-U empties the line
        self.run(":")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def bash(folder):
    shell = Terminal([need("bash"), "--norc", "--noprofile", "-i"], folder)
    shell.run("source <(trine completion bash)")
    yield shell
    shell.close()


@pytest.fixture
def zsh(folder):
    shell = Terminal([need("zsh"), "-f", "-i"], folder)
    shell.run("autoload -U compinit && compinit -u -D && source <(trine completion zsh)")
    yield shell
    shell.close()


def test_bash(bash):
    for line, wanted in LINES:
        bash.tab(line, wanted)


def test_zsh(zsh):
    for line, wanted in LINES:
        zsh.tab(line, wanted)


def fish_says(folder, line):
    script = f"trine completion fish | source; complete -C '{line}'"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    done = subprocess.run([need("fish"), "--no-config", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("line,wanted", LINES)
def test_fish(folder, line, wanted):
    offered = [row.split("\t")[0].rpartition("=")[2] for row in fish_says(folder, line)]
    assert set(wanted) <= set(offered), offered


def test_only_the_files_that_are_taken(folder):
    words = [row.split("\t")[0] for row in fish_says(folder, "trine ls --chip ")]
    assert "a.json" in words and "d/" in words and "b.npy" not in words
    script = (
        "source <(trine completion bash); COMP_LINE='trine ls --chip '; COMP_POINT=${#COMP_LINE}; "
        "compopt() { :; }; _trine; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run([need("bash"), "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["a.json", "d"], done.stderr


def pages(trine, folder):
    subprocess.run([trine, "help", "--output", str(folder)], check=True)
    return sorted(folder.glob("trine*.1"))


def test_man_reads_the_pages(trine, tmp_path):
    need("man")
    made = pages(trine, tmp_path)
    assert len(made) > 15
    for page in made:
        done = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True, text=True, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0 and done.stderr == "", f"{page.name}: {done.stderr}"
    text = subprocess.run(["man", "-l", str(tmp_path / "trine-estimate.1")], capture_output=True, text=True, env={**os.environ, "MANWIDTH": "100"}).stdout
    plain = re.sub(r".\x08", "", text)
    assert "--auto-cast KIND" in plain and "none, matmult or all: what is computed in the cast type (none)" in re.sub(r"\s+", " ", plain)


def test_mandoc_finds_nothing_wrong(trine, tmp_path):
    need("mandoc")
    for page in pages(trine, tmp_path):
        said = subprocess.run(["mandoc", "-Tlint", "-Wwarning", str(page)], capture_output=True, text=True).stdout
        assert [row for row in said.splitlines() if "missing date" not in row] == []  # a page belongs to a version, not a day
