"""The first process inside a cluster's namespaces: makes the network and the nodes, starts Slurm, and is the parent of all.

Run by `trine cluster up` as process 1 of a new PID namespace, with mounts, network and host name of its own: when it ends,
the kernel ends every process of the cluster, whatever they did. Its folder has `cluster.json` (what to make) and gets
`ready` (or `failed` with the reason).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from trine.cluster import slurm

BRIDGE = "trine0"
START_SECONDS = 60
# A node's own /dev has its chips beside what every program needs; its own /dev/shm, because hosts share no memory. Ports that AWS's
# scripts listen on are reserved, as they do with sysctl: else an outgoing connection may have one, and none can listen there.
NODE = r"""
set -e
name=$1 address=$2 chips=$3 conf=$4
hostname "$name"
for _ in $(seq 500); do ip link show eth0 >/dev/null 2>&1 && break; sleep 0.01; done
ip link set lo up; ip addr add "$address/15" dev eth0; ip link set eth0 up
{ echo 44000,48620 > /proc/sys/net/ipv4/ip_local_reserved_ports; } 2>/dev/null || :  # read-only in some containers
devices=$(mktemp -d)
mount -t tmpfs -o size=1m,mode=755 dev "$devices"
mkdir "$devices/shm" "$devices/pts"
for d in null zero full random urandom tty; do touch "$devices/$d"; mount --bind "/dev/$d" "$devices/$d"; done
ln -s /proc/self/fd "$devices/fd"; ln -s pts/ptmx "$devices/ptmx"
for n in 0 1 2; do ln -s "/proc/self/fd/$n" "$devices/$(echo stdin stdout stderr | cut -d' ' -f$((n + 1)))"; done
[ -d /dev/pts ] && mount --bind /dev/pts "$devices/pts"
mount -t tmpfs -o mode=1777 shm "$devices/shm"
for c in $(seq 0 $((chips - 1))); do touch "$devices/neuron$c"; mount --bind /dev/null "$devices/neuron$c"; done
mount --move "$devices" /dev; rmdir "$devices"
exec slurmd -D -N "$name" -f "$conf"
"""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip() or f'exit {done.returncode}'}")
    return done.stdout


class Host:
    def __init__(self, folder):
        self.folder = Path(folder)
        made = json.loads((self.folder / "cluster.json").read_text())
        self.of = slurm.cluster(made["nodes"], made["instance"])
        self.conf = str(self.folder / "slurm.conf")
        self.children = {}  # process -> what it is

    def write(self):
        texts = {"slurm.conf": slurm.slurm_conf(self.of, self.folder), "gres.conf": slurm.gres_conf(self.of),
                 "hosts": slurm.hosts_file(self.of), "task_prolog.sh": slurm.task_prolog(self.of)}  # fmt: skip
        if self.of.switch > 1:
            texts["topology.conf"] = slurm.topology_conf(self.of)
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        (self.folder / "task_prolog.sh").chmod(0o755)
        for name in ("state", "spool", *(f"spool/{n}" for n in self.of.names)):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)

    def network(self):
        run("mount", "--bind", str(self.folder / "hosts"), "/etc/hosts")
        run("hostname", slurm.HEAD)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{slurm.HEAD_ADDRESS}/15", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")

    def start(self, what, *words):
        log = open(self.folder / f"{what}.out", "ab")
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "SLURM_CONF": self.conf})
        log.close()
        self.children[child.pid] = what
        return child

    def daemons(self):
        f = self.folder
        run("munged", "--force", f"--socket={f}/munge.socket", f"--key-file={f}/munge.key", f"--pid-file={f}/munge.pid",
            f"--log-file={f}/munge.log", f"--seed-file={f}/munge.seed")  # fmt: skip
        self.start("slurmctld", "slurmctld", "-D", "-f", self.conf)

    def node(self, index):
        """A node's slurmd as process 1 of namespaces of its own, on a cable to the bridge; the end here is named by the node."""
        name = self.of.names[index]
        child = self.start(name, "unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
                           "bash", "-c", NODE, "node", name, slurm.address(index), str(self.of.chips), self.conf)  # fmt: skip
        first = self.first_inside(child.pid)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(first))
        run("ip", "link", "set", name, "master", BRIDGE, "up")
        (self.folder / f"spool/{name}.first").write_text(str(first))

    def first_inside(self, pid):
        """Process 1 of the namespaces that `unshare` made: its one child."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except OSError:
                break
            if children:
                return int(children[0])
            time.sleep(0.005)
        raise OSError(f"a node ended as it began; {self.folder} has its log")

    def wait_idle(self):
        until = time.monotonic() + START_SECONDS
        states = ""
        while time.monotonic() < until:
            done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True, env={**os.environ, "SLURM_CONF": self.conf})
            states = done.stdout.split()
            if states.count("idle") == self.of.nodes:
                return
            self.reap(os.WNOHANG)
            time.sleep(0.1)
        raise OSError(f"after {START_SECONDS} s {len(states)} nodes of {self.of.nodes} are {', '.join(sorted(set(states))) or 'not known'}; "
                      f"{self.folder}/slurmctld.log says why")  # fmt: skip

    def reap(self, how):
        try:
            pid, _ = os.waitpid(-1, how)
        except ChildProcessError:
            return None
        if pid and self.children.pop(pid, None) == "slurmctld":
            raise OSError(f"slurmctld ended; {self.folder}/slurmctld.log says why")
        return pid

    def up(self):
        self.write()
        self.network()
        self.daemons()
        for index in range(self.of.nodes):
            self.node(index)
        self.wait_idle()
        (self.folder / "ready").touch()

    def serve(self):
        """Until told to end. A file `return` with a node's name starts that node anew."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        while True:
            while self.reap(os.WNOHANG):
                pass
            asked = self.folder / "return"
            if asked.exists():
                name = asked.read_text().strip()
                asked.unlink()
                if name in self.of.names:
                    self.node(self.of.names.index(name))
            time.sleep(0.1)


if __name__ == "__main__":
    host = Host(sys.argv[1])
    try:
        host.up()
    except (OSError, ValueError) as e:
        (host.folder / "failed").write_text(str(e))
        sys.exit(1)
    host.serve()
