"""The C interface: the example as its README says, and what a C program can get wrong."""

import ctypes
import subprocess
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_void_p

import pytest


@pytest.fixture(scope="module")
def build(request):
    return request.config.trine.parent


def test_the_example(build, request, tmp_path):
    root = request.config.rootpath
    program = tmp_path / "run_stablehlo"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-pedantic", root / "examples/c/run_stablehlo.c",
                    f"-I{root}/include", build / "libtrine.so", f"-Wl,-rpath,{build}", "-o", program], check=True)  # fmt: skip
    done = subprocess.run([program, root / "examples/c/layer.mlir"], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "layer on NC_v2, 2 devices",
        "input  0  f32[2,3]",
        "input  1  f32[3,4]",
        "output 0  f32[2,4]  20 23 26 29 56 68 80 92",
        "output 1  f32[]  394",
    ], done.stderr
    bad = tmp_path / "bad.mlir"
    bad.write_text("module { func.func @main( }")
    failed = subprocess.run([program, bad], capture_output=True, text=True, timeout=60)
    assert failed.returncode == 3 and failed.stderr.startswith("error: ")


class Type(ctypes.Structure):
    _fields_ = [("dtype", c_char_p), ("dims", POINTER(c_int64)), ("rank", c_size_t)]


class Trine:
    """trine.h by ctypes: a function that gives an error raises its text."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.trine_error_message.restype = c_char_p
        for name in ("message", "free", "code"):
            getattr(self.library, f"trine_error_{name}").argtypes = [c_void_p]

    def __getattr__(self, name):
        function = getattr(self.library, f"trine_{name}")

        def call(*arguments):
            function.restype = c_void_p
            error = function(*arguments)
            if error:
                text = self.library.trine_error_message(error).decode()
                self.library.trine_error_free(error)
                raise RuntimeError(text)

        return call


TEXT = b"""module @f { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32> return %y : tensor<4xf32> } }"""


@pytest.fixture
def c(build):
    trine = Trine(build / "libtrine.so")
    trine.machine = c_void_p()
    trine.machine_open(b"trn1.2xlarge", byref(trine.machine))
    yield trine
    trine.library.trine_machine_free(trine.machine)


def tensor(c, dims, dtype=b"f32", device=0, data=None):
    made = c_void_p()
    sizes = (c_int64 * len(dims))(*dims)
    c.tensor_from_host(c.machine, c_size_t(device), byref(Type(dtype, sizes, len(dims))), data or b"\0" * 64, byref(made))
    return made


def test_a_program_doubles(c):
    program, out = c_void_p(), c_void_p()
    c.compile(c.machine, c_size_t(1), TEXT, c_size_t(len(TEXT)), byref(program))
    x = tensor(c, [4], device=1, data=(ctypes.c_float * 4)(1, 2, 3, 4))
    c.run(program, byref(x), c_size_t(1), byref(out))
    c.library.trine_program_free(program)  # what runs keeps what it needs
    values = (ctypes.c_float * 4)()
    c.tensor_to_host(out, values, c_size_t(16))
    assert list(values) == [2, 4, 6, 8]
    c.library.trine_tensor_free(x), c.library.trine_tensor_free(out)


def test_wrong_arguments_are_errors(c):
    program, out = c_void_p(), c_void_p()
    with pytest.raises(RuntimeError, match="device 7 of 2"):
        c.compile(c.machine, c_size_t(7), TEXT, c_size_t(len(TEXT)), byref(program))
    with pytest.raises(RuntimeError, match="trn1.2xlarge"):
        c.machine_open(b"trn9", byref(c_void_p()))
    for dims, dtype, said in [([4], b"f33", "f33"), ([-1], b"f32", "-1"), ([1 << 62, 8], b"f32", "4611686018427387904"), ([1 << 36], b"f32", "68719476736")]:
        with pytest.raises(RuntimeError, match=said):
            tensor(c, dims, dtype)
    c.compile(c.machine, c_size_t(0), TEXT, c_size_t(len(TEXT)), byref(program))
    for x in tensor(c, [5]), tensor(c, [4], b"s32"), tensor(c, [4], device=1):
        with pytest.raises(RuntimeError, match="argument 0 of f"):
            c.run(program, byref(x), c_size_t(1), byref(out))
        c.library.trine_tensor_free(x)
    with pytest.raises(RuntimeError, match="1"):
        c.run(program, None, c_size_t(0), byref(out))
    with pytest.raises(RuntimeError, match="number 3 of 1"):
        c.program_input(program, c_size_t(3), byref(Type()))
    c.library.trine_program_free(program)
