"""The tables of a profile and of a record of runs as NumPy sees them; src/run/profile/file.h and run_log.h declare them."""

import numpy as np

RUN = np.dtype([("begin", "i8"), ("end", "i8"), ("host_begin_ns", "i8"), ("host_ns", "i8"), ("program", "u4"), ("name", "u4"), ("rank", "u4"),
                ("lane", "u4"), ("device", "u4"), ("devices", "u4"), ("step", "u4"), ("reserved", "u4")])  # fmt: skip
EVENT = np.dtype([("begin", "i8"), ("end", "i8"), ("insn", "u4"), ("cause", "u4"), ("waited_ns", "f4"), ("waited_for", "u1"), ("doing", "u1"),
                  ("reserved", "u2")])  # fmt: skip
TRACK = np.dtype([("core", "u2"), ("part", "u2"), ("queue", "u2"), ("lane", "u2"), ("levels", "u4"), ("name", "u4"), ("event", "u8"), ("count", "u8"),
                  ("node", "u8"), ("busy", "i8")])  # fmt: skip
INSN = np.dtype([("name", "u4"), ("text", "u4"), ("at", "u4"), ("core", "u2"), ("part", "u2"), ("count", "i8"), ("busy", "i8"), ("waited", "i8"),
                 ("flops", "i8"), ("hbm_read", "i8"), ("hbm_write", "i8"), ("sbuf_read", "i8"), ("sbuf_write", "i8"), ("psum_read", "i8"),
                 ("psum_write", "i8"), ("spill_save", "i8"), ("spill_reload", "i8")])  # fmt: skip
MEMORY = np.dtype([("at", "i8"), ("bytes", "i8"), ("kind", "u4"), ("label", "u4")])
SEMAPHORE = np.dtype([("at", "i8"), ("value", "i4"), ("event", "u4"), ("core", "u2"), ("semaphore", "u2"), ("reserved", "u4")])
TRANSFER = np.dtype([("at", "i8"), ("host_begin_ns", "i8"), ("host_ns", "i8"), ("bytes", "i8"), ("rank", "u4"), ("device", "u4"), ("direction", "u4"),
                     ("step", "u4")])  # fmt: skip
WINDOW = np.dtype([("begin_ns", "i8"), ("end_ns", "i8"), ("event", "i8"), ("count", "i8"), ("name", "i4"), ("busy", "f4")])
LOGGED = np.dtype([("begin_ns", "i8"), ("took_ns", "i8"), ("kind", "u4"), ("what", "u4"), ("device", "u4"), ("devices", "u4"), ("bytes", "i8")])

NONE = 0xFFFFFFFF
PARTS = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma", "semaphore", "issue", "port", "result", "launch", "")  # sim::Part
ENGINES = PARTS[:5]
DIRECTIONS = ("host to device", "device to host")
DOINGS = ("execute", "issue", "table")
SPACES = ("hbm", "sbuf", "psum")
EXECUTE = 0
