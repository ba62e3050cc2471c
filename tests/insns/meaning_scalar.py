"""The scalar engine's instructions in NumPy: f(data·scale + bias), reductions in 128 registers, activate2.

Functions are stated in float64; the engine's result may be one unit in the last place away. Copies, squares and the
like are exact, and so are sums of them: one float32 addition per element, in element order.
"""

import math

import numpy as np
from harness import CHIPS, Case, Meaning, Step, Tile, f32, is_float

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def normal_below(x):
    return 0.5 * erfc(-x / math.sqrt(2))


def normal_density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_dx(x):
    return sigmoid(x) * sigmoid(-x)


def vanishing(f):
    """A function that goes to 0 on the left, where its formula would be 0 times infinity."""
    return lambda x: np.where(x < -300, 0.0, f(np.maximum(x, -300)))


def settling(f):
    """A function that goes to 0 on the left and to 1 on the right."""
    return lambda x: np.where(x < -300, 0.0, np.where(x > 300, 1.0, f(np.clip(x, -300, 300))))


FUNCTIONS = {
    "copy": lambda x: x,
    "abs": np.abs,
    "arctan": np.arctan,
    "cos": np.cos,
    "erf": erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": np.exp,
    "gelu": vanishing(lambda x: x * normal_below(x)),
    "gelu_dx": settling(lambda x: normal_below(x) + x * normal_density(x)),
    "gelu_apprx_sigmoid": vanishing(lambda x: x * sigmoid(1.702 * x)),
    "gelu_apprx_sigmoid_dx": settling(lambda x: sigmoid(1.702 * x) + 1.702 * x * sigmoid_dx(1.702 * x)),
    "gelu_apprx_tanh": vanishing(lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "log": np.log,
    "mish": vanishing(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0) + 0.0,  # no negative zero
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sign": np.sign,
    "silu": vanishing(lambda x: x * sigmoid(x)),
    "silu_dx": settling(lambda x: sigmoid(x) + x * sigmoid_dx(x)),
    "sin": np.sin,
    "softplus": lambda x: np.logaddexp(0, x),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}
EXACT = ["copy", "abs", "relu", "square", "sign"]  # one float32 operation at most
POSITIVE = ["exp", "sigmoid", "softplus", "erf_dx"]  # their sums do not cancel
RANGES = {  # valid inputs: lowest and highest magnitude, and whether negative ones are
    "log": (2.0**-64, 2.0**64, False),
    "sqrt": (2.0**-116, 2.0**118, False),
    "rsqrt": (2.0**-87, 2.0**97, False),
    "reciprocal": (2.0**-42, 2.0**42, True),
    "sin": (0, 3.1415925, True),
    "arctan": (0, 1.5707962, True),
}


def apply(function, x):
    """float32 in, float32 out, computed in float64."""
    return f32(FUNCTIONS[function](x.astype(np.float64)))


def valid_inputs(make, function, dtype, shape):
    """Random values the function is documented for, also after rounding to the format."""
    low, high, both = RANGES[function]
    if low == 0:
        magnitude = make.rng.uniform(0, high, shape)
    elif dtype == "f32":
        magnitude = np.exp2(make.rng.uniform(math.log2(low) + 1, math.log2(high) - 1, shape))
    else:
        magnitude = make.rng.uniform(0.06, 100, shape)
    return np.where(make.rng.random(shape) < 0.5, -magnitude, magnitude) if both else magnitude


def space(make):
    return make.pick("sbuf", "sbuf", "psum")


def column(make, dtype, p, **more):
    return make.tile(dtype, p, 1, **({"space": space(make), "special": 0} | more))


def make_data(make, chip, function, p, n):
    if function not in RANGES:
        dtype = make.dtype(chip, "float", "int")
        return make.tile(dtype, p, n, space=space(make), scale=None if is_float(dtype) else 9)
    dtype = make.pick("f32", "f32", "bf16", "f16")
    inside = 1 if dtype == "f32" else 0.99  # rounding may not leave the range at π
    return make.tile(dtype, p, n, space=space(make), values=f32(valid_inputs(make, function, dtype, (p, n)) * inside))


def make_dst(make, chip, function, p, n):
    dtype = make.dtype(chip, "float", "int") if function in EXACT else make.dtype(chip, "float")
    if dtype == "tf32" and function not in EXACT:
        dtype = "f32"  # one unit of tf32 is many of the f32 it is stored in
    return make.tile(dtype, p, n, space=space(make), writes=True)


def make_activation(function):
    def generate(make):
        p, n = make.shape()
        chip = make.pick(*CHIPS)
        operands = {"dst": make_dst(make, chip, function, p, n), "data": make_data(make, chip, function, p, n)}
        if function not in RANGES:
            operands["scale"] = make.pick(None, make.number(), column(make, "f32", p))
            constant = make.number() if chip != "trn1" else None
            operands["bias"] = make.pick(None, constant, column(make, make.pick("f32", "bf16", "f16"), p))
            if make.chance(0.15):
                operands["data"] = make.overlapping(operands["dst"], n)
        case = Case(chip, "scalar", [Step("activation", operands, {"op": function})])
        case.ulps = {} if function in EXACT else {operands["dst"].name: 1}
        return case

    return generate


def scalar_of(operand):
    return operand.f32 if isinstance(operand, Tile) else np.float32(operand)


def scaled(operands):
    x = operands["data"].f32
    if operands.get("scale") is not None:
        x = x * scalar_of(operands["scale"])
    if operands.get("bias") is not None:
        x = x + scalar_of(operands["bias"])
    return x


def activation(case):
    return {"dst": apply(case.attrs["op"], scaled(case.steps[0].operands))}


# --- reductions ---

COMMANDS = ["idle", "reset", "reduce", "reset_reduce", "load_reduce"]
REDUCTIONS = {
    "add": (np.add, 0.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
    "abs_max": (lambda a, b: np.where(np.abs(a) > np.abs(b), a, b), 0.0),
    "abs_min": (lambda a, b: np.where(np.abs(a) < np.abs(b), a, b), np.inf),
}


def reduce_steps(registers, steps, results):
    """Runs the steps' reductions over 128 registers; `results` are each step's float32 values before the cast."""
    out = {}
    for step, values in zip(steps, results):
        data = step.operands["data"]
        lanes = slice(data.region.start, data.region.start + data.region.partitions)
        combine, identity = REDUCTIONS[step.attrs.get("reduce_op") or "add"]
        command = "reset_reduce" if step.insn == "activation_reduce" else step.attrs.get("reduce_cmd") or "idle"
        if command in ("reset", "reset_reduce"):
            registers[lanes] = identity
        if command == "load_reduce":
            registers[lanes] = np.broadcast_to(scalar_of(step.operands["reduce_init"]).reshape(-1), data.region.partitions)
        if command in ("reduce", "reset_reduce", "load_reduce"):
            for e in range(values.shape[1]):
                registers[lanes] = combine(registers[lanes], values[:, e])
        if step.operands.get("reduce_res") is not None:
            out[step.operands["reduce_res"].name] = registers[lanes].copy()[:, None]
        out[step.operands["dst"].name] = values
    return out


def make_reduction(make):
    """A chain of activations over the same lanes; the first one sets the registers."""
    p, _ = make.shape()
    start = None
    steps, ulps = [], {}
    positive = make.chance(0.3)
    for i in range(int(make.rng.integers(1, 5))):
        function = make.pick(*(POSITIVE if positive else EXACT))
        n = int(make.rng.integers(1, 40))
        where = space(make) if i < 2 else "sbuf"  # PSUM has eight banks
        data = make.tile(make.pick("f32", "bf16"), p, n, space=where, scale=2.0, special=0, start=start)
        start = data.region.start
        command = make.pick("reset", "reset_reduce", "load_reduce") if i == 0 else make.pick(*COMMANDS)
        dst = make.tile(make.pick("f32", "bf16"), p, n, space=where, writes=True)
        result = column(make, make.pick("f32", "f32", "bf16"), p, writes=True, space="sbuf") if make.chance(0.6) else None
        initial = make.pick(abs(make.number()), column(make, "f32", p, values=f32(abs(make.rng.normal(size=(p, 1))))))
        operands = {"dst": dst, "data": data, "scale": make.number(), "reduce_res": result,
                    "reduce_init": initial if command == "load_reduce" else None}
        steps.append(Step("activation", operands, {"op": function, "reduce_op": "add", "reduce_cmd": command}))
        if positive:
            ulps |= {dst.name: 1} | ({result.name: 32} if result else {})
    return Case(make.pick(*CHIPS), "scalar", steps, ulps)


def reduction(case):
    values = [apply(s.attrs["op"], scaled(s.operands)) for s in case.steps]
    return reduce_steps(np.zeros(128, np.float32), case.steps, values)


def make_activation_reduce(make):
    p, n = make.shape()
    function = make.pick(*EXACT, *POSITIVE)
    operands = {"dst": make.tile("f32", p, n, space=space(make), writes=True),
                "data": make.tile(make.pick("f32", "bf16"), p, n, space=space(make), scale=1.0, special=0),
                "scale": make.pick(None, make.number(), column(make, "f32", p)),
                "bias": make.pick(None, column(make, "f32", p)),
                "reduce_res": column(make, "f32", p, writes=True)}
    ulps = {} if function in EXACT else {operands["dst"].name: 1, operands["reduce_res"].name: 32}
    return Case(make.pick(*CHIPS), "scalar",
                [Step("activation_reduce", operands, {"op": function, "reduce_op": "add"})], ulps)


# --- activate2 ---

PAIRS = [("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
         ("subtract", "bypass"), ("bypass", "bypass")]
OPERATORS = {"multiply": np.multiply, "add": np.add, "subtract": np.subtract}


def make_activate2(make):
    p, n = make.shape(48)
    function = make.pick(*EXACT, "prelu", "prelu", "gelu", "tanh", "silu")
    op0, op1 = make.pick(*PAIRS)
    operands = {"dst": make.tile(make.pick("f32", "bf16"), p, n, space=space(make), writes=True),
                "data": make.tile(make.pick("f32", "bf16", "f16"), p, n, space=space(make), special=0, scale=1.0)}
    for i, op in enumerate((op0, op1)):
        operands[f"imm{i}"] = make.pick(make.number(), column(make, "f32", p)) if op != "bypass" else None
    operands["relu_param"] = make.pick(make.number(), column(make, "f32", p)) if function == "prelu" else None
    attrs = {"op": function, "op0": op0, "op1": op1}
    attrs |= {f"reverse{i}": make.chance(0.3) for i, op in enumerate((op0, op1)) if op != "bypass"}
    if function in [*EXACT, "prelu"] and make.chance(0.6):
        attrs |= {"reduce_op": make.pick(*REDUCTIONS), "reduce_cmd": "reset_reduce"}
        operands["reduce_res"] = column(make, "f32", p, writes=True)
    return Case("trn3", "scalar", [Step("activate2", operands, attrs)],
                {operands["dst"].name: 0 if function in [*EXACT, "prelu"] else 1})


def activate2(case):
    operands, attrs = case.steps[0].operands, case.attrs
    x = operands["data"].f32
    for i in range(2):
        if attrs[f"op{i}"] != "bypass":
            pair = x, scalar_of(operands[f"imm{i}"])
            x = OPERATORS[attrs[f"op{i}"]](*(reversed(pair) if attrs[f"reverse{i}"] else pair))
    if attrs["op"] == "prelu":
        values = np.where(x < 0, x * scalar_of(operands["relu_param"]), x)
    else:
        values = apply(attrs["op"], x)
    return reduce_steps(np.zeros(128, np.float32), case.steps, [values])


TABLE = {f"activation {name}": Meaning(make_activation(name), activation, cases=12) for name in FUNCTIONS}
TABLE |= {
    "activation": Meaning(make_reduction, reduction, cases=60),
    "activation_reduce": Meaning(make_activation_reduce, reduction, cases=30),
    "activate2": Meaning(make_activate2, activate2, cases=60),
}
