"""`trine gatherinfo`: versions, machine, settings, counters and core dumps in one archive, cleaned of secrets; nothing is sent."""

import importlib.metadata
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import time

from trine import _core
from trine.command import OK, note

VARIABLES = re.compile(r"^(NEURON|TRINE|XLA|JAX|TORCH|PJRT|OMP|FI|CCOM)_")
NAMED = re.compile(r"(?i)(key|token|secret|passw|credential|auth|cookie|session)")
SECRETS = [
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS access keys
    re.compile(r"\b(?:hf|ghp|gho|ghs|github_pat|sk|xox[abp]|glpat)[_-][A-Za-z0-9_-]{10,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON web tokens
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),  # user:password of an address
    re.compile(r"(?i)((?:key|token|secret|passwd|password|credential)s?[\"']?\s*[=:]\s*[\"']?)[^\s\"',;}]+"),
    re.compile(r"(?i)(--[a-z-]*(?:key|token|secret|password)[a-z-]*[= ])\S+"),
]
PACKAGES = ("trine", "trine-compat", "torch", "jax", "jaxlib", "numpy", "ml_dtypes", "transformers", "safetensors", "onnx")
LARGEST = 4 << 20  # bytes of one file


def clean(text):
    """Without what looks like a secret, a home folder or a user's name."""
    for pattern in SECRETS:
        text = pattern.sub(lambda m: (m.group(1) if m.re.groups else "") + "[removed]", text)
    home = str(pathlib.Path.home())
    if len(home) > 1:
        text = text.replace(home, "~")
    return re.sub(r"(?<=/home/)[^/\s]+", "user", text)


def variables(environment):
    """Those that concern us, by name; secrets by what they are called too."""
    return {name: "[removed]" if NAMED.search(name) else clean(value) for name, value in sorted(environment.items()) if VARIABLES.match(name)}


def versions():
    """Of Trine, Python, the system and the packages that matter."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"trine": _core.version, "python": sys.version.split()[0], "system": platform.platform(), "packages": found}


def processors():
    """Their kind and count, without serial numbers."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"model": names[0] if names else "", "count": os.cpu_count()}


def printed(trine, *words):
    """What a command of ours prints."""
    done = subprocess.run([trine, *words], capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def dumps():
    """The newest core dumps, by the folder the runtime is told."""
    folder = os.environ.get("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY")
    files = sorted(pathlib.Path(folder).glob("core.*.json"), key=lambda p: p.stat().st_mtime) if folder else []
    return files[-8:]


def gather(trine, include=()):
    """{name in the archive: text}, all of it cleaned."""
    files = {
        "versions.json": json.dumps(versions(), indent=1),
        "environment.json": json.dumps(variables(os.environ), indent=1),
        "processors.json": json.dumps(processors(), indent=1),
        "machine.txt": printed(trine, "ls", "--wide"),
        "machine.json": printed(trine, "ls", "--json"),
        "cache.txt": printed(trine, "cache"),
        "counters.json": _core.Watcher().document(1.0) if _core.counters_folder() else "{}",
        "memory.txt": pathlib.Path("/proc/meminfo").read_text(),
    }
    for path in [*dumps(), *map(pathlib.Path, include)]:
        files[f"files/{path.name}"] = path.read_bytes()[:LARGEST].decode("utf-8", "replace")
    return {name: clean(text) for name, text in files.items()}


def write(folder, files):
    """One archive; gives its path."""
    name = time.strftime("neuron-gatherinfo-%Y%m%d-%H%M%S")
    path = pathlib.Path(folder) / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            data = text.encode()
            row = tarfile.TarInfo(f"{name}/{file}")
            row.size, row.mtime, row.mode = len(data), int(time.time()), 0o600
            archive.addfile(row, io.BytesIO(data))
    path.chmod(0o600)
    return path


def run(asked):
    """Writes the archive and says what is in it."""
    note("gathering versions, machine, settings and counters")
    files = gather(asked.trine, asked.include or ())
    path = write(asked.output, files)
    if asked.json:
        print(json.dumps({"version": 1, "report": "gatherinfo", "archive": str(path), "files": {n: len(t) for n, t in files.items()}}, indent=2))
    else:
        print(f"{path}: {len(files)} files, secrets taken out; look before you send it")
        for name, text in files.items():
            print(f"  {len(text):>9,}  {name}")
    return OK
