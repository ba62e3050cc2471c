"""Writes tests/replay/inputs: programs as JAX, torch and ONNX hand them over. `make replay-inputs [GROUP...]`.

Needed only to add programs: what is stored does not follow the frameworks' versions. Archives are the same bytes for the
same contents.
"""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)


def archive(name, programs):
    """programs: {name: (bytes, what the compiler is told)}"""
    index = {n: about for n, (_, about) in programs.items()}
    files = {"index.json": (json.dumps(index, indent=1) + "\n").encode()} | {n: data for n, (data, _) in programs.items()}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as tar:
        for member, data in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    path = FOLDER / "inputs" / f"{name}.tar.xz"
    path.write_bytes(buffer.getvalue())
    print(f"{path.relative_to(FOLDER)}: {len(programs)} programs, {path.stat().st_size:,} bytes")


def ops():
    """Of each op up to two cases of its own test, one dtype each."""
    from ops import device

    names = sorted(path.stem for path in (FOLDER.parent / "ops").glob("*.test"))
    parts, most = [], 2
    for op in names:
        seen = set()
        for line, variant in device.cases(op, False):
            if len(seen) == most:
                break
            if line.number in seen:
                continue
            try:
                text, _ = device.graph_of(op, line, variant or "")
            except Exception as e:  # the case is not for one program: what pytest alone can run
                print(f"{op}, line {line.number}: left out: {e}", file=sys.stderr)
                continue
            seen.add(line.number)
            parts.append(f"# {op} {len(seen)}{' ' + variant if variant else ''}\n{text.strip()}\n")
    (FOLDER / "inputs/ops.graphs").write_text("\n".join(parts))
    print(f"inputs/ops.graphs: {len(parts)} programs of {len(names)} ops")


def jax():
    from replay.programs_jax import programs

    archive("jax", programs())


def mesh():
    from replay.programs_mesh import programs

    archive("mesh", programs())


def zoo():
    from replay.programs_zoo import programs

    archive("zoo", programs())


def torch():
    from replay.programs_torch import programs

    archive("torch", programs())


def onnx():
    from replay.programs_onnx import programs

    archive("onnx", programs())


GROUPS = {"ops": ops, "jax": jax, "mesh": mesh, "zoo": zoo, "torch": torch, "onnx": onnx}


def main():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=32"
    (FOLDER / "inputs").mkdir(exist_ok=True)
    for group in sys.argv[1:] or GROUPS:
        GROUPS[group]()


if __name__ == "__main__":
    main()
