"""What a compiled program says of itself, and arrays and profiles that others read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def compiled():
    return jax.jit(lambda a: jnp.tanh(a @ a.T) + 1, donate_argnums=()).lower(X).compile()


def test_memory_analysis(compiled):
    stats = compiled.memory_analysis()
    assert (stats.argument_size_in_bytes, stats.output_size_in_bytes) == (48, 36)


def test_cost_analysis(compiled):
    cost = compiled.cost_analysis()
    assert cost["flops"] >= 2 * 3 * 3 * 4 and cost["bytes accessed"] >= 84


def test_as_text(compiled):
    text = compiled.as_text()
    assert "f32[3,4]" in text and "f32[3,3]" in text


@pytest.mark.parametrize("dtype, named", [("bool", "pred"), ("uint32", "u32"), ("bfloat16", "bf16"), ("int4", "s4"),
                                          ("complex64", "c64"), ("float8_e4m3fn", "f8e4m3fn")])  # fmt: skip
def test_as_text_of_dtypes(dtype, named):
    compiled = jax.jit(lambda a, i: (a[i], a, i)).lower(jnp.ones((2, 3), dtype), 1).compile()
    assert f"{named}[2,3]" in compiled.as_text() and f"{named}[3]" in compiled.as_text() and "s32[]" in compiled.as_text()
    assert compiled.output_formats[1].layout.major_to_minor == (0, 1)


def test_as_text_of_few_results_and_many_steps():
    assert "->()" in jax.jit(lambda a: None).lower(X).compile().as_text()
    many = jax.jit(lambda a: [jnp.sort(a * i, 1) for i in range(2, 70)]).lower(X).compile()
    plan = many.runtime_executable().hlo_modules()[0].to_string()
    assert "steps" in plan and plan.count("f32[3,4]") > 68 and many.as_text().count(" sort(") == 68
    key = jax.random.key(0)  # as wanted by Shardy
    assert "u32[2]" in jax.jit(lambda key: jax.random.normal(key, (3,))).lower(key).compile().as_text()


def test_dlpack_gives_a_copy_on_the_host():
    x = jnp.asarray(X)
    np.testing.assert_array_equal(np.from_dlpack(x), X)
    np.testing.assert_array_equal(jnp.from_dlpack(x), X)
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(copy=False)
    on_cpu = jax.device_put(X, jax.devices("cpu")[0])
    np.testing.assert_array_equal(np.from_dlpack(on_cpu), X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dlpack_of_what_numpy_does_not_know(dtype):
    torch = pytest.importorskip("torch")
    x = jnp.asarray([0.5, -1.5, 3], dtype)
    taken = torch.from_dlpack(x)
    assert taken.dtype == getattr(torch, dtype) and taken.tolist() == [0.5, -1.5, 3]
    assert jnp.from_dlpack(x).dtype == dtype


def test_export():
    exported = jax.export.export(jax.jit(lambda a: a * 2), platforms=["neuron"])(X)
    np.testing.assert_array_equal(exported.call(X), X * 2)


def test_profiler_shows_when_devices_ran(tmp_path):
    f = jax.jit(lambda a: jnp.tanh(a @ a.T).sum(), inline=False)
    x = jnp.ones((300, 300))
    f(x).block_until_ready()
    with jax.profiler.trace(tmp_path):
        for step in range(3):
            with jax.profiler.StepTraceAnnotation("train", step_num=step):
                f(x).block_until_ready()
    (file,) = tmp_path.rglob("*.xplane.pb")
    planes = {p.name: p for p in jax.profiler.ProfileData.from_file(str(file)).planes}
    lines = {line.name: list(line.events) for line in planes["/device:CUSTOM:neuron:0"].lines}
    events = lines["Programs"]
    assert len(events) == 3 and all(e.duration_ns > 0 and e.name.startswith("jit_") for e in events)
    assert len({e.duration_ns for e in events}) == 1 and len(lines["tensor"]) % 3 == 0, "the chip's time, the same in every run"
    steps = [e for line in planes["/host:CPU"].lines for e in line.events if e.name == "train"]
    assert len(steps) == 3 and steps[0].start_ns < events[0].start_ns < steps[2].start_ns + steps[2].duration_ns


@pytest.mark.parametrize("dtype", ["int4", "int2", "uint4"])
def test_narrow_integers_have_a_sign(dtype):
    """Hosts leave the bits above an element's own as they like."""
    wide = np.random.default_rng(0).integers(0 if dtype[0] == "u" else -2, 2, (5, 9))
    x = wide.astype(jnp.dtype(dtype))
    for f in (lambda v: jnp.sort(v, 1), lambda v: jnp.argmax(v, 1), lambda v: v.max(0), lambda v: jax.lax.top_k(v, 3)[0]):
        np.testing.assert_array_equal(np.asarray(jax.jit(f)(x)).astype(np.int8), jax.jit(f)(wide.astype(np.int8)))


def test_large_programs_in_one_loop():
    """More reductions, operands and dims than one loop has room for."""
    x = np.full(3, 0.1, np.float32)

    def deep(v):
        for _ in range(150):
            v = jnp.sin(v) + v.sum() * 0.1
        return v

    def plain(v):
        for _ in range(150):
            v = np.sin(v) + v.sum() * np.float32(0.1)
        return v

    np.testing.assert_allclose(jax.jit(deep)(x), plain(x), rtol=1e-3)
    many = [np.full(2, i, np.float32) for i in range(700)]
    np.testing.assert_array_equal(jax.jit(lambda *a: sum(a))(*many), sum(many))
    flat = np.arange(4096, dtype=np.float32)
    turned = jax.jit(lambda v: (v.reshape((1, 2) * 12).transpose(range(23, -1, -1)) * 2).reshape(-1))(flat)
    np.testing.assert_array_equal(turned, (flat.reshape((2,) * 12).transpose(range(11, -1, -1)) * 2).reshape(-1))
    np.testing.assert_array_equal(jax.jit(lambda v: v.reshape((1,) * 30 + (2,)).sum(30))(flat[:2]), np.ones((1,) * 30))


def test_loops_that_would_wait_for_each_other():
    def clip(x):
        return jnp.clip(x, -100, 100)

    def f(q):
        t = q.astype(jnp.float32)
        x = clip(t * 2 - 1)
        wide = clip(jax.lax.pad(x, jnp.float32(0), ((0, 2, 0), (0, 1, 1), (0, 2, 0))))
        rows = clip(jnp.take(clip(jnp.abs(t) + t.max(2, keepdims=True)), jnp.array([1, 0, 0, 0, 1]), axis=2))
        mixed = clip(rows.at[..., 3].set(wide.reshape(-1)[:30].reshape(3, 2, 5)[..., 0]))
        turned = clip(jnp.roll(rows, 1, 1))
        left = mixed - mixed.max(1, keepdims=True)
        truths = jnp.maximum(x == x.reshape(-1).reshape(3, 2, 2), turned.reshape(-1)[:12].reshape(3, 2, 2) != 0)
        return truths, clip(clip(left + left.sum(1, keepdims=True)) * turned)

    q = np.arange(12, dtype=np.int32).reshape(3, 2, 2) - 5
    want = jax.jit(f)(jax.device_put(q, jax.devices("cpu")[0]))
    for a, b in zip(jax.jit(f)(q), want):
        np.testing.assert_array_equal(a, b)


def test_what_a_loop_reads_under_other_dims_it_does_not_write():
    def f(v):
        low = jnp.clip(jnp.broadcast_to(v, (2, 33)), -100, 100)
        both = jnp.tile(jnp.clip(jnp.maximum(v, low.ravel()[:33]), -100, 100), 2).reshape(2, 33)
        return jnp.clip(jnp.where(low > both, low, both), -100, 100), jnp.sort(jnp.clip(v[::-1], -100, 100))

    v = np.random.default_rng(0).integers(-8, 8, 33).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(f)(v)[0], np.stack([v, v]))


def test_a_program_is_dumped_where_it_is_asked_for(tmp_path, capfd):
    f = jax.jit(lambda x: jnp.tanh(x) * 2)
    f.lower(jnp.ones(3)).compile({"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_text": True})
    made = {p.name.split(".", 2)[2]: p.read_text() for p in tmp_path.iterdir()}
    assert sorted(made) == ["before_optimizations.txt", "neuron_after_optimizations.txt"]
    assert all("HloModule jit__lambda" in text and "tanh" in text for text in made.values())
    assert capfd.readouterr().out == ""


def test_memory_that_can_be_reserved():
    stats = jax.devices()[0].memory_stats()
    assert stats["bytes_reservable_limit"] == stats["bytes_limit"]


def test_what_is_kept_though_nobody_uses_it():
    @jax.jit
    def f(x):
        jax.lax.dce_sink({"a": jnp.sin(x), "b": x * 2}, prevent_mlir_dce=True)
        return x + 1

    assert f(1.0) == 2
    assert "sine(" in f.lower(1.0).compile().as_text()
