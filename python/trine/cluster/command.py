"""`trine cluster up|down|ls|run|lose|return`: src/tools/commands/cluster.cpp has its options."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from trine.cluster import slurm
from trine.command import OK, OUTSIDE, USAGE, Stop, note
from trine.progress import stage
from trine.text import aligned

NEEDED = ("slurmctld", "slurmd", "sinfo", "munged", "ip", "unshare", "nsenter", "mount", "hostname")
PACKAGES = "slurmctld slurmd slurm-client munge iproute2"


def folder_of(name):
    """Where a cluster lies: sockets need a short path, and it is nobody else's."""
    base = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/trine-{os.getuid()}"
    return Path(base) / "clusters" / name


def read(name):
    """What `up` wrote of a cluster that runs; one whose processes are gone is removed."""
    folder = folder_of(name)
    try:
        made = json.loads((folder / "cluster.json").read_text())
    except (OSError, ValueError):
        return None
    if not (folder / "ready").exists() or not alive(made.get("outer")):
        return None
    return made | {"folder": str(folder)}


def alive(pid):
    try:
        return pid is not None and b"trine.cluster.host" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def running(name):
    found = read(name)
    if found is None:
        raise Stop(USAGE, f"no cluster {name} is up; start one: trine cluster up --nodes 4 --instance trn1.32xlarge")
    return found


def remove(name):
    """Ends the processes and deletes the folder; true where there was something."""
    folder = folder_of(name)
    if not folder.exists():
        return False
    try:
        outer = json.loads((folder / "cluster.json").read_text()).get("outer")
    except (OSError, ValueError):
        outer = None
    if alive(outer):
        os.kill(outer, signal.SIGKILL)  # unshare --kill-child: the first process inside dies with it, and so do all others
        until = time.monotonic() + 10
        while alive(outer) and time.monotonic() < until:
            time.sleep(0.01)
    for _ in range(50):  # what the dying write last
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return True
        time.sleep(0.02)
    raise Stop(OUTSIDE, f"cannot delete {folder}")


def up(asked):
    missing = [n for n in NEEDED if shutil.which(n, path=search_path()) is None]
    if missing:
        raise Stop(OUTSIDE, f"found no {', '.join(missing)}; expected Slurm of the distribution: apt-get install {PACKAGES}")
    if read(asked.name):
        raise Stop(USAGE, f"cluster {asked.name} is up already; trine cluster down --name {asked.name}, or another --name")
    remove(asked.name)
    try:
        of = slurm.cluster(asked.nodes, asked.instance or "trn1.32xlarge")
    except ValueError as e:
        raise Stop(USAGE, str(e)) from None
    folder = folder_of(asked.name)
    folder.mkdir(parents=True, mode=0o700)
    (folder / "cluster.json").write_text(json.dumps({"nodes": of.nodes, "instance": of.instance}))
    begun = time.monotonic()
    with stage(f"starting {of.nodes} nodes of {of.instance}"):
        outer = start(folder)
        wait(folder, outer, asked.name)
    which = "" if asked.name == "default" else f" --name {asked.name}"
    note(f"{of.nodes} nodes of {of.instance} are idle after {time.monotonic() - begun:.1f} s; "
         f"next: trine cluster run{which} -- sbatch job.sh")  # fmt: skip
    return OK


def search_path():
    """Daemons lie in sbin, which is not on everybody's path."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def start(folder):
    own = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *own, "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
             sys.executable, "-m", "trine.cluster.host", str(folder)]  # fmt: skip
    with open(folder / "host.out", "wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                                   env={**os.environ, "PATH": search_path()})  # fmt: skip
    made = json.loads((folder / "cluster.json").read_text()) | {"outer": process.pid}
    (folder / "cluster.json").write_text(json.dumps(made))
    return process


def wait(folder, outer, name):
    while not (folder / "ready").exists():
        if outer.poll() is not None or (folder / "failed").exists():
            failed, out = folder / "failed", folder / "host.out"
            why = failed.read_text() if failed.exists() else out.read_text(errors="replace").strip()[-500:]
            logs = keep_logs(folder)
            remove(name)
            raise Stop(OUTSIDE, f"the cluster did not start: {why or 'no reason given'}; its logs are in {logs}")
        time.sleep(0.02)
    inside = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    made = json.loads((folder / "cluster.json").read_text()) | {"first": int(inside[0])}
    (folder / "cluster.json").write_text(json.dumps(made))


def keep_logs(folder):
    logs = Path(f"{folder}.logs")
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    for log in (*folder.glob("*.log"), *folder.glob("*.out")):
        shutil.copy(log, logs)
    return logs


def down(asked):
    if not remove(asked.name):
        raise Stop(USAGE, f"no cluster {asked.name}; trine cluster ls says which there are")
    note(f"cluster {asked.name} is down")
    return OK


def inside(made, words):
    """The command as it is run in the cluster: its processes, network and host names; the folder stays the caller's."""
    own = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", "-t", str(made["first"]), *own, "-m", "-p", "-n", "-u", "-i", f"--wd={os.getcwd()}", "--", *words]


def environment(made):
    return {**os.environ, "SLURM_CONF": f"{made['folder']}/slurm.conf", "TRINE_CLUSTER": made["folder"]}


def run_inside(asked):
    made = running(asked.name)
    words = asked.words[1:] or [os.environ.get("SHELL", "bash")]
    return subprocess.run(inside(made, words), env=environment(made)).returncode


def query(made, *words):
    done = subprocess.run(inside(made, words), env=environment(made), capture_output=True, text=True)
    if done.returncode:
        raise Stop(OUTSIDE, f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def one_node(asked, made):
    names = slurm.cluster(made["nodes"], made["instance"]).names
    if len(asked.words) != 2 or asked.words[1] not in names:
        raise Stop(USAGE, f"found {' '.join(asked.words[1:]) or 'no node'}, expected one of {names[0]} to {names[-1]}")
    return asked.words[1]


def lose(asked):
    """A node gone as if its power failed: its processes end at once, and Slurm finds out by itself."""
    made = running(asked.name)
    node = one_node(asked, made)
    first = Path(made["folder"]) / f"spool/{node}.first"
    if not first.exists():
        raise Stop(USAGE, f"{node} is lost already; trine cluster return {node}")
    query(made, "kill", "-9", first.read_text())
    first.unlink()
    note(f"{node} is lost; Slurm takes it down after 15 s without an answer and requeues its jobs")
    return OK


def give_back(asked):
    made = running(asked.name)
    node = one_node(asked, made)
    if (Path(made["folder"]) / f"spool/{node}.first").exists():
        raise Stop(USAGE, f"{node} is not lost")
    (Path(made["folder"]) / "return").write_text(node)
    note(f"{node} starts again")
    return OK


def listing(asked):
    base = folder_of("")
    rows = []
    for name in sorted(p.name for p in base.iterdir()) if base.exists() else []:
        made = read(name)
        if made is None:
            continue
        states = query(made, "sinfo", "-h", "-N", "-o", "%N %T").split()
        jobs = query(made, "squeue", "-h", "-o", "%i %T").split()
        rows.append({"name": name, "instance": made["instance"], "nodes": dict(zip(states[::2], states[1::2])),
                     "jobs": dict(zip(jobs[::2], jobs[1::2])), "folder": made["folder"]})  # fmt: skip
    if asked.json:
        print(json.dumps({"version": 1, "report": "cluster", "clusters": rows}, indent=2))
        return OK
    if not rows:
        note("no cluster is up")
        return OK
    count = lambda states: ", ".join(f"{list(states.values()).count(s)} {s.lower()}" for s in sorted(set(states.values()))) or "none"  # noqa: E731
    print(aligned([["cluster", "instance", "nodes", "jobs"]] + [[r["name"], r["instance"], count(r["nodes"]), count(r["jobs"])] for r in rows]))
    return OK


def run(asked):
    verbs = {"up": up, "down": down, "ls": listing, "run": run_inside, "lose": lose, "return": give_back}
    verb = asked.words[0] if asked.words else "ls"
    if verb not in verbs:
        raise Stop(USAGE, f"found {verb}, expected one of {', '.join(verbs)}")
    return verbs[verb](asked)
