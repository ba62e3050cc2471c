"""`neuronx-cc`, the name that scripts call Neuron's compiler by: `trine compile` under its options.

An HLO module, which Neuron's compiler reads, becomes StableHLO by jaxlib first. The file that is written is Trine's own
format under the name asked for; `trine run` takes it. What has no counterpart is accepted and said.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from trine import __version__
from trine.__main__ import find_trine
from trine.command import OUTSIDE, UNSUPPORTED, USAGE

INSTANCES = {"inf2": "inf2.xlarge", "trn1": "trn1.2xlarge", "trn1n": "trn1n.32xlarge", "trn2": "trn2.3xlarge",
             "trn2n": "trn2.48xlarge", "trn3": "trn3-gen1-ultraserver"}  # fmt: skip
CAST_TYPES = {"bf16": "bf16", "fp16": "f16", "tf32": "tf32", "fp8_e4m3": "f8"}
LEVELS = ["debug", "info", "warning", "error", "critical", "user"]
# Options of Neuron's that change nothing here: name, metavar or None for a switch, choices.
ACCEPTED = [
    ("--model-type", "TYPE", ["generic", "transformer", "unet-inference"]),
    ("--distribution-strategy", "NAME", ["llm-training"]),
    ("--native-int64", "HOW", ["default", "enabled", "disabled"]),
    ("--implicit-integer-downcast", "OPS", None),
    ("--enable-mixed-precision-accumulation", None, None),
    ("--disable-mixed-precision-accumulation", None, None),
    ("--enable-saturate-infinity", None, None),
    ("--enable-fast-context-switch", None, None),
    ("--enable-fast-loading-neuron-binaries", None, None),
    ("--internal-hlo2tensorizer-options", "TEXT", None),
]  # fmt: skip


def parser():
    top = argparse.ArgumentParser(prog="neuronx-cc", description="Neuron's compiler by name, Trine's by work: see `trine compile`.")
    top.add_argument("--version", action="version", version=f"NeuronX Compiler of trine {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    compile_ = commands.add_parser("compile", help="an HLO, StableHLO or ONNX model as a program for a chip")
    compile_.add_argument("model", nargs="+", help="model.hlo_module.pb, .stablehlo or .onnx")
    compile_.add_argument("--framework", type=str.upper, choices=["XLA"], default="XLA")
    compile_.add_argument("--target", choices=list(INSTANCES), help="without it the instance that `trine use` chose")
    compile_.add_argument("--output", "-o", default="file.neff", help="file.neff without it")
    compile_.add_argument("--auto-cast", choices=["none", "matmult", "all"], default="none")
    compile_.add_argument("--auto-cast-type", choices=list(CAST_TYPES), default="bf16")
    compile_.add_argument("--logical-nc-config", "-lnc", type=int, choices=[1, 2], help="a program is for one core; 2 is refused")
    compile_.add_argument("--optlevel", "-O", choices=["1", "2", "3"], help="accepted; there is one")
    compile_.add_argument("--verbose", choices=LEVELS, default="user", help="info and debug show the passes and their times")
    compile_.add_argument("--logfile", help="also write what is said there")
    for name, metavar, choices in ACCEPTED:
        options = {"action": "store_true"} if metavar is None else {"metavar": metavar, "choices": choices}
        compile_.add_argument(name, help="accepted; it changes nothing here", **options)
    operators = commands.add_parser("list-operators", help="the ops there are")
    operators.add_argument("--framework", type=str.upper, choices=["XLA"], default="XLA")
    return top


class Refused(Exception):
    """What keeps the compiler from going on, with its exit code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def as_stablehlo(path, folder):
    """The path of a model that `trine compile` reads: the same, or the HLO module in it as StableHLO."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError as e:
        raise Refused(OUTSIDE, f"cannot read {path}: {e.strerror}") from None
    is_text = all(c >= 32 or c in b"\t\r\n" for c in data[:256])  # an HLO module has lengths and tags between its names
    if path.endswith((".onnx", ".trn")) or is_text or data[:4] == b"ML\xefR":
        return path
    try:
        from jaxlib import xla_client
    except ImportError:
        raise Refused(OUTSIDE, f"{path} is an HLO module, which jaxlib reads; install jax for {sys.executable}") from None
    try:
        text = xla_client._xla.mlir.hlo_to_stablehlo(data)
    except Exception as e:
        raise Refused(UNSUPPORTED, f"found no HLO module in {path}: {str(e).splitlines()[0]}; expected one, StableHLO or ONNX") from None
    made = os.path.join(folder, "model.stablehlo")
    with open(made, "wb") as f:
        f.write(text)
    return made


def without_effect(asked):
    """The options that were given and change nothing."""
    given = [name for name, *_ in ACCEPTED if getattr(asked, name[2:].replace("-", "_"))]
    return given + (["--optlevel"] if asked.optlevel else [])


def compile_model(asked, say):
    if len(asked.model) != 1:
        raise Refused(USAGE, f"found {len(asked.model)} models, expected one")
    if asked.logical_nc_config == 2:
        raise Refused(UNSUPPORTED, "found --logical-nc-config 2; a program of `trine compile` is for one core: give 1, or leave it out")
    if ignored := without_effect(asked):
        say(f"neuronx-cc: {', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect here")
    with tempfile.TemporaryDirectory() as folder:
        command = [find_trine(), "compile", as_stablehlo(asked.model[0], folder), "--output", asked.output, "--name",
                   os.path.basename(asked.model[0]), "--auto-cast", asked.auto_cast, "--auto-cast-type",
                   CAST_TYPES[asked.auto_cast_type]]  # fmt: skip
        command += ["--instance", INSTANCES[asked.target]] if asked.target else []
        command += ["--time-passes"] if asked.verbose in ("info", "debug") else []
        done = subprocess.run(command, capture_output=True, text=True)
    say((done.stdout + done.stderr).rstrip("\n"))
    return done.returncode


def list_operators():
    done = subprocess.run([find_trine(), "ops", "--json"], capture_output=True, text=True, check=True)
    for op in json.loads(done.stdout)["ops"]:
        if not op["internal"]:
            print(op["name"])
    return 0


def main(words=None) -> int:
    asked = parser().parse_args(words)
    if asked.command == "list-operators":
        return list_operators()
    lines = []

    def say(text):
        lines.append(text)
        print(text, file=sys.stderr)

    try:
        code = compile_model(asked, say)
    except Refused as e:
        say(f"neuronx-cc: {e}")
        code = e.code
    say(f"Compiler status {'PASS' if code == 0 else 'ERROR'}")
    if asked.logfile:
        with open(asked.logfile, "w") as f:
            f.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
