"""Runs other people's clients, unchanged, against `trine serve smollm2`: one environment per client, made in build/clients.

Each clients/<name>.py is a program that gets the server's address and key and fails loudly. `run.py [NAME...]`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "build/clients"


def rows():
    lines = (ROOT / "setup/clients.txt").read_text().splitlines()
    return {name.strip(): packages.split() for name, _, packages in (line.partition(":") for line in lines if line and not line.startswith("#"))}


def environment(name, packages):
    """The Python of a client's own environment; made again when its packages change."""
    folder = PLACE / name
    stamp = folder / "packages.txt"
    if not stamp.exists() or stamp.read_text().split() != packages:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        done = subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        if done.returncode:
            return None
        stamp.write_text("\n".join(packages))
    return folder / "bin/python"


def main(wanted):
    failed = []
    with tempfile.TemporaryDirectory() as home:
        env = os.environ | {"HOME": home, "XDG_CONFIG_HOME": f"{home}/c", "XDG_STATE_HOME": f"{home}/s", "OPENAI_AGENTS_DISABLE_TRACING": "1", "HF_HUB_OFFLINE": "1"}
        server = subprocess.Popen([ROOT / "build/trine", "serve", "smollm2", "--port", "0", "--json"], env=env, stdout=subprocess.PIPE, text=True)
        try:
            told = json.loads(server.stdout.readline())
            key = Path(told["key_file"]).read_text().strip()
            for name, packages in rows().items():
                if wanted and name not in wanted:
                    continue
                python = environment(name, packages)
                if python is None:
                    print(f"{name:12} cannot be installed here: {' '.join(packages)}")
                    failed.append(name)
                    continue
                done = subprocess.run([python, ROOT / f"tests/serve/clients/{name}.py", told["url"], key], env=env, capture_output=True, text=True, timeout=600)
                print(f"{name:12} {'passes' if not done.returncode else 'fails'}")
                if done.returncode:
                    failed.append(name)
                    print(done.stdout[-2000:], done.stderr[-3000:])
        finally:
            server.terminate()
            server.wait(30)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
