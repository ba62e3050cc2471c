#!/usr/bin/env python3
"""neuron-monitor | neuron-monitor-prometheus.py [-p PORT]: documents from stdin, served for Prometheus by `trine monitor`."""

import argparse
import os
import pathlib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("-p", "--port", type=int, default=8000, help="HTTP port (%(default)s)")
parser.add_argument("--address", default="127.0.0.1", help="where to listen (%(default)s); others need --token-file")
parser.add_argument("--token-file", help="a token that clients must send")
parser.add_argument("--cert-file", help="serve by TLS with this certificate")
parser.add_argument("--key-file", help="and its key")
given = parser.parse_args()
line = ["monitor", "--stdin", f"--prometheus={given.port}", f"--address={given.address}"]
line += [f"--{name.replace('_', '-')}={value}" for name in ("token_file", "cert_file", "key_file") if (value := getattr(given, name))]
beside = pathlib.Path(__file__).parent / "trine"
command = str(beside) if beside.exists() else "trine"
os.execvp(command, [command, *line])
