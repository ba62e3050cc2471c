"""Random JAX programs as text: how one is made, run on two backends, compared and shrunk.

Values are whole numbers that their dtype holds exactly, so each difference between backends is a fault, down to the
bit. The steps a program is made of are in random_steps.py and random_control.py; random_sweep.py looks for differences.
The sign of zeros is not compared: XLA's rewrites drop it.
"""

import re
import warnings
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129, 1000]
WHOLE = {  # up to here every whole number is a number of the dtype
    "float32": 2**24, "float64": 2**53, "bfloat16": 2**8, "float16": 2**11, "float8_e4m3fn": 16, "float8_e5m2": 8,
    "complex64": 2**22, "complex128": 2**50,
}  # fmt: skip
# Without int2: XLA's CPU takes -1 for more than 0 where it has just added.
NARROW = ["int4", "uint4", "uint2", "float8_e4m3fn", "float8_e5m2"]
COMMON = ["float32"] * 6 + ["int32"] * 3 + ["bool", "bfloat16", "float16", "int8", "uint8", "int16", "uint16", "uint32"]
WIDE = ["int64", "uint64", "float64", "complex128"]
BASE = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "NamedSharding": NamedSharding, "P": P, "mesh": AbstractMesh((4, 2), ("x", "y"))}
PRELUDE = "import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax\n"
MESH = 'Mesh(np.array(jax.devices(name)[:8]).reshape(4, 2), ("x", "y"))'


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple
    dtype: str
    bound: float  # of its absolute value; infinity for integers of any size

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape, dtype=np.int64)))
    truth = property(lambda self: self.dtype == "bool")
    whole = property(lambda self: "int" in self.dtype)  # an integer, signed or not
    complex = property(lambda self: "complex" in self.dtype)
    real = property(lambda self: "float" in self.dtype)


@dataclass(frozen=True)
class Line:
    depth: int
    text: str
    value: Value | None = None  # what it names; none for def and return


@dataclass
class Program:
    seed: int
    wide: bool  # with 64 bits
    inputs: dict = field(default_factory=dict)  # name: expression in NumPy
    lines: list = field(default_factory=list)
    results: list = field(default_factory=list)
    donated: tuple = ()
    places: dict = None  # over a mesh, how inputs lie on it: name: PartitionSpec as text

    def function(self):
        body = "".join(f"{'    ' * (1 + line.depth)}{line.text}\n" for line in self.lines)
        returned = "".join(f"{name}, " for name in self.results)
        return f"def f({', '.join(self.inputs)}):\n{body}    return ({returned})\n"

    def snippet(self):
        """The program as a script that prints what both backends give."""
        wide = 'jax.config.update("jax_enable_x64", True)\n' if self.wide else ""
        args = "".join(f"    {text},\n" for text in self.inputs.values())
        jit = f"jax.jit(f, donate_argnums={self.donated})" if self.donated else "jax.jit(f)"
        head, loop, put = PRELUDE, 'for name in ("neuron", "cpu"):\n', "*jax.device_put(args, jax.devices(name)[0])"
        if self.places is not None:
            head += "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
            loop += f"    mesh = {MESH}\n"
            specs = ", ".join(self.places.get(name, "P()") for name in self.inputs)
            put = f"*(jax.device_put(a, NamedSharding(mesh, p)) for a, p in zip(args, [{specs}]))"
        return f"# seed {self.seed}\n{head}{wide}\n{self.function()}\nargs = [\n{args}]\n{loop}    print(name, {jit}({put}))\n"

    def tolerates(self, got, want, dtype):
        """Where a difference is none: past the numbers that are exact."""
        return np.abs(want) > whole_most(dtype)

    def exact(self):
        """The same program of wider numbers, which judges between two results; none where they must be equal."""
        return None

    def arguments(self):
        return [eval(text, dict(BASE)) for text in self.inputs.values()]


def whole_most(dtype):
    return WHOLE.get(dtype, np.inf)


def drawn(seed, shape, dtype, bound):
    """An expression for an array of random whole numbers up to bound."""
    generator, dims = f"np.random.default_rng({seed})", tuple(shape)
    if dtype == "bool":
        return f"{generator}.integers(0, 2, {dims}) > 0"
    if "int" in dtype:
        info = jnp.iinfo(dtype)
        low, high = max(int(info.min), -int(min(bound, 2**63))), min(int(info.max), int(min(bound, 2**64 - 1)))
        kind = "np.uint64" if high >= 2**63 else "np.int64"
        return f"{generator}.integers({low}, {high}, {dims}, {kind}, True).astype(jnp.{dtype})"
    most = int(min(bound, whole_most(dtype)))
    if "complex" in dtype:
        return f"({generator}.integers({-most}, {most + 1}, {(2, *dims)}) * np.array([1, 1j]).reshape{(2,) + (1,) * len(dims)}).sum(0).astype('{dtype}')"
    return f"np.asarray({generator}.integers({-most}, {most + 1}, {dims})).astype(jnp.{dtype})"


class Scope:
    """Where lines are added: the body of the program, or of a function in it. Values are traced while lines are made."""

    def __init__(self, maker, environment, depth, values):
        self.maker, self.environment, self.depth, self.values = maker, environment, depth, list(values)
        self.g = maker.g

    def roll(self, count):
        return int(self.g.integers(count))

    def pick(self, options):
        return options[self.roll(len(options))]

    def name(self, letter="v"):
        self.maker.names += 1
        return f"{letter}{self.maker.names}"

    def line(self, text, value=None):
        self.maker.program.lines.append(Line(self.depth, text, value))

    def add(self, text, bound):
        """One line: a new value of this expression. Floats too large for whole numbers are brought back."""
        got = jnp.asarray(eval(text, self.environment))
        dtype = str(got.dtype)
        if got.size > 4 * self.maker.elements:
            raise ValueError("too large")
        if bound > whole_most(dtype):
            text, bound = self.clipped(text, dtype), min(9, whole_most(dtype))
            got = jnp.asarray(eval(text, self.environment))
        value = Value(self.name(), got.shape, dtype, bound)
        self.environment[value.name] = got
        self.line(f"{value.name} = {text}", value)
        self.values.append(value)
        return value

    def clipped(self, text, dtype):
        if "complex" in dtype:
            return f"(lambda z: lax.complex(jnp.clip(z.real, -9, 9), jnp.clip(z.imag, -9, 9)))({text})"
        most = int(min(9, whole_most(dtype)))
        return f"jnp.clip({text}, {-most}, {most})"

    def small(self, v, bound):
        """v as it is, or brought within the bound."""
        if v.bound <= bound:
            return v
        if v.complex:
            return self.add(self.clipped(v.name, v.dtype), 9)
        if v.whole and int(jnp.iinfo(v.dtype).max) <= bound:
            return v
        low = 0 if v.dtype.startswith("uint") else -int(bound)
        return self.add(f"jnp.clip({v.name}, {low}, {int(bound)})", bound)

    def cast(self, v, dtype):
        if v.dtype == dtype:
            return v
        if v.complex and "complex" not in dtype:
            v = self.add(f"{v.name}.real", v.bound)
        if v.dtype != "bool" and not (v.whole and "int" in dtype):  # integers wrap, floats would be rounded
            most = min(whole_most(dtype), 9 if dtype in NARROW else 1000)
            v = self.small(v, min(most, int(jnp.iinfo(dtype).max)) if "int" in dtype else most)
            if v.real and dtype.startswith("uint"):
                v = self.add(f"jnp.abs({v.name})", v.bound)
        if dtype == "bool":
            return self.add(f"{v.name} > 0", 1)
        bound = v.bound if not ("int" in dtype and v.whole) else np.inf
        return self.add(f"{v.name}.astype(jnp.{dtype})", 1 if v.truth else bound)

    def shaped(self, shape, dtype, bound=np.inf, source=None):
        """A value of this type made of the source, or of any that is there."""
        v = self.small(self.cast(source or self.pick(self.values), dtype), bound)
        size = int(np.prod(shape, dtype=np.int64))
        if v.shape == tuple(shape):
            return v
        if not v.size or not size:
            return self.add(f"jnp.ones({tuple(shape)}, jnp.{dtype})", 1)
        if v.ndim <= len(shape) and all(d in (1, e) for d, e in zip(v.shape[::-1], shape[::-1])):
            return self.add(f"jnp.broadcast_to({v.name}, {tuple(shape)})", v.bound)
        flat = f"{v.name}.reshape(-1)"
        if v.size < size:
            flat = f"jnp.tile({flat}, {-(-size // v.size)})"
        return self.add(f"{flat}[:{size}].reshape({tuple(shape)})", v.bound)

    def like(self, v, bound=np.inf):
        same = [o for o in self.values if o.shape == v.shape and o.dtype == v.dtype and o.bound <= bound]
        return self.pick(same) if same and self.roll(3) else self.shaped(v.shape, v.dtype, bound)

    def function(self, types, fill, letter="f", around=lambda f: f, outside=None):
        """Lines of a function of arguments of these types; fill(scope, values) returns the names it gives back. It is
        traced inside of what `around` makes of it, for arguments of the types outside."""
        name = self.name(letter)
        values = [Value(self.name("p"), t.shape, t.dtype, t.bound) for t in types]
        self.line(f"def {name}({', '.join(v.name for v in values)}):")
        begin = len(self.maker.program.lines)

        def traced(*arguments):
            scope = Scope(self.maker, dict(self.environment), self.depth + 1, [*self.values[-4:], *values])
            scope.environment.update({v.name: a for v, a in zip(values, arguments)})
            back = fill(scope, values)
            scope.line("return " + (", ".join(back) if isinstance(back, list) else back))
            return 0

        jax.eval_shape(around(traced), *(jax.ShapeDtypeStruct(v.shape, jnp.dtype(v.dtype)) for v in outside or values))
        body = self.maker.program.lines[begin:]
        text = f"def {name}({', '.join(v.name for v in values)}):\n"
        exec(text + "".join(f"{'    ' * (li.depth - self.depth)}{li.text}\n" for li in body), self.environment)
        return name


class Maker:
    """One program from a seed; steps are functions (scope, value) that add lines."""

    sizes, elements = SIZES, 12000  # dims, and the most that a value has

    def __init__(self, seed, steps, length=24):
        self.g, self.steps, self.names = np.random.default_rng(seed), steps, 0
        self.program, self.length = Program(seed, bool(self.g.random() < 0.3)), length
        if self.g.random() < 0.5:  # of few kinds, so that those meet often
            kinds = list(dict.fromkeys(steps))
            self.steps = [kinds[int(i)] for i in self.g.permutation(len(kinds))[:6]]

    def dims(self):
        while True:
            shape = tuple(int(d) for d in self.g.choice(self.sizes, int(self.g.integers(0, 5))))
            if self.g.random() < 0.02 and shape:
                shape = (0, *shape[1:])
            if np.prod(shape) <= self.elements:
                return shape

    def inputs(self):
        kinds = COMMON + NARROW[: 5 if self.g.random() < 0.3 else 0] + ["complex64"] + WIDE * self.program.wide * 2
        for _ in range(1 + int(self.g.integers(3))):
            dtype = kinds[int(self.g.integers(len(kinds)))]
            bound = 1 if dtype == "bool" else min(4, whole_most(dtype)) if "int" not in dtype else [9, np.inf][int(self.g.integers(2))]
            value = Value(f"a{len(self.program.inputs)}", self.dims(), dtype, bound)
            self.program.inputs[value.name] = drawn(int(self.g.integers(1000)), value.shape, dtype, bound)
            yield value

    def step(self, scope, step=None):
        """Whether the step, or one of any kind, could be added."""
        kept = len(self.program.lines), len(scope.values)
        recent = [v for v in scope.values[-8:] if v.size <= self.elements and (v.size or scope.roll(20) == 0)]
        try:
            (step or scope.pick(self.steps))(scope, scope.pick(recent or scope.values))
            return True
        except (TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, OverflowError):
            del self.program.lines[kept[0] :], scope.values[kept[1] :]
            return False

    def make(self):
        with jax.enable_x64(self.program.wide), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = list(self.inputs())

            def traced(*arguments):
                scope = Scope(self, {**BASE, **{v.name: a for v, a in zip(given, arguments)}}, 0, given)
                self.fill(scope)
                return self.results(scope)

            jax.eval_shape(traced, *(jax.ShapeDtypeStruct(v.shape, jnp.dtype(v.dtype)) for v in given))
        return self.program

    def fill(self, scope):
        for _ in range(2 + int(self.g.integers(self.length))):
            self.step(scope)

    def results(self, scope):
        """The last values, and now and then others, one of them twice, or an input."""
        names = [v.name for v in scope.values]
        more = [names[int(i)] for i in self.g.integers(len(names), size=int(self.g.integers(3)))]
        self.program.results = names[-int(self.g.integers(1, 6)) :] + more
        if self.g.random() < 0.2:
            self.program.donated = tuple(i for i in range(len(self.program.inputs)) if self.g.random() < 0.6)
        return 0


class LargeMaker(Maker):
    """Values that threads share, and few of them."""

    sizes, elements = SIZES + [300, 1000, 2049, 70000], 400000

    def __init__(self, seed, steps, length):
        super().__init__(seed, steps, min(length, 8))


def placed(program, name, mesh):
    """Arguments on the first device, or over the mesh; on that of CPUs whole."""
    with jax.default_device(jax.devices("cpu")[0]):
        arguments = program.arguments()
    if program.places is None:
        return jax.device_put(arguments, jax.devices(name)[0])
    specs = [eval(program.places.get(n, "P()") if name != "cpu" else "P()", dict(BASE)) for n in program.inputs]
    return [jax.device_put(a, NamedSharding(mesh, spec)) for a, spec in zip(arguments, specs)]


def results(program, name):
    """What the program gives on devices of this name."""
    environment, mesh = dict(BASE), None
    if program.places is not None:
        mesh = environment["mesh"] = Mesh(np.array(jax.devices(name)[:8]).reshape(4, 2), ("x", "y"))
    exec(program.function(), environment)
    with jax.enable_x64(program.wide), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = placed(program, name, mesh)
        return [np.asarray(r) for r in jax.jit(environment["f"], donate_argnums=program.donated)(*arguments)]


def plain(array):
    """As a dtype that NumPy compares."""
    if array.dtype.kind in "biufc":
        return array
    return array.astype(np.int32 if "int" in str(array.dtype) else np.float32)


def attempt(program, name):
    """What the program gives, or the error as text."""
    try:
        return results(program, name)
    except Exception as error:  # noqa: BLE001, whatever the backend says
        return f"{type(error).__name__}: {str(error)[:400]}"


def difference(program, given, wanted, exact=None):
    """Empty, or how what is given differs; what is as near to the exact result does not."""
    if isinstance(given, str):
        return given
    for name, got, want, true in zip(program.results, given, wanted, exact or wanted, strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{name} is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        a, b = plain(got), plain(want)
        wrong = ~((a == b) | ((a != a) & (b != b)))
        if want.dtype.kind != "b":
            wrong &= ~program.tolerates(a, b, str(want.dtype))
        if exact and a.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                wrong &= ~(np.abs(a - plain(true).astype(np.float64)) <= np.abs(b - plain(true).astype(np.float64)))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"{name}{list(at)} is {a[at]}, expected {b[at]}; {int(wrong.sum())} of {wrong.size} {want.dtype} differ"
    return ""


def used(program, name):
    pattern = re.compile(rf"\b{name}\b")
    return any(pattern.search(line.text.split(" = ", 1)[-1] if line.value else line.text) for line in program.lines)


def swept(program):
    """Without the lines and inputs that nothing needs."""
    lines = list(program.lines)
    for i in reversed(range(len(program.lines))):
        line, rest = lines[i], replace(program, lines=lines[i + 1 :])
        if line.value and line.value.name not in program.results and not used(rest, line.value.name):
            del lines[i]
        elif line.text.startswith("def ") and not used(rest, line.text[4:].split("(")[0]):
            end = next(j for j in range(i + 1, len(lines) + 1) if j == len(lines) or lines[j].depth <= line.depth)
            del lines[i:end]
    done = replace(program, lines=lines)
    keep = {n: t for n, t in program.inputs.items() if n in program.results or used(done, n)}
    donated = tuple(i for i, n in enumerate(keep) if list(program.inputs).index(n) in program.donated)
    return replace(done, inputs=keep, donated=donated)


def smaller(program):
    """Programs with less in them, the boldest first."""
    made = [line.value.name for line in program.lines if line.value and not line.depth]
    for name in made[:-1] if made and program.results == made[-1:] else made:
        yield swept(replace(program, results=[name]))
    for i in range(len(program.results) if len(program.results) > 1 else 0):
        yield swept(replace(program, results=program.results[:i] + program.results[i + 1 :]))
    if program.donated:
        yield replace(program, donated=())
    for i, line in reversed(list(enumerate(program.lines))):
        if not line.value:
            continue
        v = line.value
        if line.depth == 0:
            for bound in sorted({2, min(v.bound, 9), v.bound}):
                lines = program.lines[:i] + program.lines[i + 1 :]
                inputs = {**program.inputs, v.name: drawn(1, v.shape, v.dtype, bound)}
                yield swept(replace(program, lines=lines, inputs=inputs))
        elif "jnp.ones(" not in line.text:
            constant = replace(line, text=f"{v.name} = jnp.ones({v.shape}, jnp.{v.dtype})")
            yield swept(replace(program, lines=[*program.lines[:i], constant, *program.lines[i + 1 :]]))


def shrunk(program, differs):
    """The smallest program found that still differs: ops dropped, or replaced by inputs, while the fault stays."""
    found = True
    while found:
        found = next((p for p in smaller(program) if differs(p)), None)
        program = found or program
    return program
