// Loop programs on both builds of the interpreter against the reference: views, stages, reductions, every op and type.
#include "host/loops/loop.h"

#include <cmath>
#include <cstring>

#include "base/pool.h"
#include "base/text.h"
#include "host/loops/nest.h"
#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;
using test::check_program;
using test::kBuilds;

namespace {

LoopProgram add_program(std::vector<int64_t> sizes, std::vector<int64_t> a, std::vector<int64_t> b,
                        std::vector<int64_t> out, int64_t elements, int64_t offset = 0) {
  LoopBuilder t;
  for (int64_t n : sizes) t.dim(n);
  uint32_t x = t.input(Dtype::f32, elements, a, offset), y = t.input(Dtype::f32, elements, b),
           z = t.output(Dtype::f32, elements, out);
  t.store(z, t.binary(LoopOp::add, t.load(x), t.load(y)));
  return t.take();
}

// gelu(x * w + b), then layer norm with weights.
LoopProgram gelu_layer_norm(int64_t rows, int64_t columns, Dtype dtype = Dtype::f32) {
  LoopBuilder t;
  t.dim(rows);
  t.dim(columns, true);
  uint32_t x = t.input(dtype, rows * columns, {columns, 1}), w = t.input(dtype, columns, {0, 1}),
           b = t.input(dtype, columns, {0, 1}), out = t.output(dtype, rows * columns, {columns, 1});
  auto k = [&](double v) { return t.constant(Dtype::f32, v); };
  auto mul = [&](LoopValue a, LoopValue c) { return t.binary(LoopOp::mul, a, c); };
  auto add = [&](LoopValue a, LoopValue c) { return t.binary(LoopOp::add, a, c); };
  LoopValue u = add(mul(t.load(x), t.load(w)), t.load(b));
  LoopValue cubic = add(u, mul(k(0.044715), mul(u, mul(u, u))));
  LoopValue h = mul(mul(k(0.5), u), add(k(1), t.unary(LoopOp::tanh, mul(k(0.7978845608), cubic))));
  LoopValue sum = t.unary(LoopOp::reduce_sum, h);
  t.once();
  LoopValue mean = mul(sum, k(1.0 / double(columns)));
  t.each();
  LoopValue off = t.binary(LoopOp::sub, h, mean);
  LoopValue squares = t.unary(LoopOp::reduce_sum, mul(off, off));
  t.once();
  LoopValue scale = t.unary(LoopOp::rsqrt, add(mul(squares, k(1.0 / double(columns))), k(1e-5)));
  t.each();
  t.store(out, add(mul(mul(off, scale), t.load(w)), t.load(b)));
  return t.take();
}

LoopProgram softmax(std::vector<LoopDim> dims, std::vector<int64_t> strides, int64_t elements,
                    Dtype dtype = Dtype::f32) {
  LoopBuilder t;
  for (const LoopDim& d : dims) t.dim(d.size, d.inner);
  uint32_t x = t.input(dtype, elements, strides), out = t.output(dtype, elements, strides);
  LoopValue v = t.load(x), top = t.unary(LoopOp::reduce_max, v);
  t.each();
  LoopValue e = t.unary(LoopOp::exp, t.binary(LoopOp::sub, v, top)), sum = t.unary(LoopOp::reduce_sum, e);
  t.once();
  LoopValue inverse = t.binary(LoopOp::div, t.constant(loop_value_type(dtype), 1), sum);
  t.each();
  t.store(out, t.binary(LoopOp::mul, e, inverse));
  return t.take();
}

LoopProgram reduction(LoopOp op, Dtype dtype, std::vector<LoopDim> dims, std::vector<int64_t> strides,
                      int64_t elements) {
  LoopBuilder t;
  std::vector<int64_t> out_strides(dims.size(), 0);
  int64_t rows = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d].inner) continue;
    out_strides[d] = rows;
    rows *= dims[d].size;
  }
  for (const LoopDim& d : dims) t.dim(d.size, d.inner);
  uint32_t x = t.input(dtype, elements, strides), out = t.output(dtype, rows, out_strides);
  LoopValue r = t.unary(op, t.load(x));
  t.once();
  t.store(out, r);
  return t.take();
}

}  // namespace

TEST_CASE("views: broadcast, transpose, slice, reverse") {
  for (const auto& build : kBuilds) {
    CHECK(check_program(add_program({7, 33}, {33, 1}, {0, 1}, {33, 1}, 231), 1, build) == "");
    CHECK(check_program(add_program({7, 33}, {1, 7}, {33, 1}, {33, 1}, 231), 2, build) == "");
    CHECK(check_program(add_program({7, 33}, {33, 1}, {33, 1}, {1, 7}, 231), 3, build) == "");
    CHECK(check_program(add_program({5, 300}, {600, 2}, {0, 0}, {300, 1}, 3000), 4, build) == "");
    CHECK(check_program(add_program({5, 300}, {-300, -1}, {300, 1}, {300, 1}, 1500, 1499), 5, build) == "");
    CHECK(check_program(add_program({3, 4, 5, 6}, {120, 30, 6, 1}, {1, 3, 12, 60}, {120, 30, 6, 1}, 360), 6, build) ==
          "");
    CHECK(check_program(add_program({5000}, {1}, {1}, {1}, 5000), 7, build) == "");
    CHECK(check_program(add_program({}, {}, {}, {}, 1), 8, build) == "");
    CHECK(check_program(add_program({4, 0}, {0, 1}, {0, 1}, {0, 1}, 0), 9, build) == "");
  }
}

TEST_CASE("short rows beside few numbers that come again") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::u8}) {
      for (int64_t few : {2, 3, 5, 12}) {
        for (int64_t step : {1, 2, -1}) {  // of the few numbers
          LoopBuilder t;
          t.dim(3);
          t.dim(700);
          t.dim(few);
          const int64_t all = 3 * 700 * few, reach = (few - 1) * std::abs(step);
          const uint32_t x = t.input(d, all, {700 * few, few, 1}), scale = t.input(d, 3, {1, 0, 0}),
                         mean = t.input(d, reach + 8, {0, 0, step}, step < 0 ? reach + 5 : 5),
                         y = t.output(d, all, {700 * few, few, 1});
          t.store(y, t.binary(LoopOp::add, t.binary(LoopOp::mul, t.load(x), t.load(scale)), t.load(mean)));
          INFO(std::string(row(d).name), " ", few, " ", step);
          const LoopProgram program = t.take();
          CHECK(check_program(program, 4, build, 1) == "");
          CHECK(host::make_nest(program).repeated.size() == 1);
        }
      }
    }
  }
}

TEST_CASE("pieces of few bytes in reverse order, and nothing read beside them") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64}) {
      for (int64_t piece : {1, 2, 3}) {
        for (int64_t count : {2, 3, 5, 17, 64}) {
          LoopBuilder t;
          t.dim(2);
          t.dim(count);
          t.dim(piece);
          const int64_t line = count * piece;
          const uint32_t x = t.input(d, 2 * line, {line, -piece, 1}, line - piece),
                         y = t.output(d, 2 * line, {line, piece, 1});
          t.store(y, t.load(x));
          INFO(std::string(row(d).name), " ", piece, " ", count);
          CHECK(check_program(t.take(), 4, build) == "");
        }
      }
    }
  }
}

TEST_CASE("more numbers of 64 bits than registers, each used late") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::f64, Dtype::s64}) {
      for (int64_t size : {1, 3}) {
        LoopBuilder t;
        t.dim(size);
        const uint32_t x = t.input(d, 40 * size, {1}), y = t.output(d, 2 * size, {1}),
                       z = t.output(d, 2 * size, {1}, size);
        std::vector<arch::LoopValue> values = {t.load(x)};
        for (int i = 1; i < 24; ++i)
          values.push_back(
              t.unary(i % 3 == 0 ? LoopOp::neg : LoopOp::abs, t.load(t.input(d, 40 * size, {1}, i * size))));
        arch::LoopValue sum = values[0], product = values[23];
        for (size_t i = 1; i < values.size(); ++i) {
          sum = t.binary(i % 2 ? LoopOp::add : LoopOp::sub, sum, values[i]);
          product = t.ternary(LoopOp::select, t.binary(LoopOp::lt, product, values[i]), values[i],
                              t.binary(LoopOp::mul, t.constant(d, 3), values[24 - i]));
        }
        t.store(y, t.binary(LoopOp::max, sum, product));
        t.store(z, sum);
        CHECK(check_program(t.take(), 5, build) == "");
      }
    }
  }
}

TEST_CASE("transposes: whole blocks, rests and planes, of every size of element") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::s64}) {
      for (bool computes : {false, true}) {
        LoopBuilder t;
        t.dim(3);
        t.dim(70);
        t.dim(139);
        const int64_t all = 3 * 70 * 139;
        uint32_t x = t.input(d, all, {70 * 139, 1, 70}), y = t.output(d, all, {139, 3 * 139, 1});
        LoopValue v = t.load(x);
        t.store(y, computes ? t.binary(LoopOp::add, v, v) : v);
        CHECK(check_program(t.program(), 1, build) == "");
      }
    }
  }
}

TEST_CASE("rows that are read in steps, from their first element to the last of the buffer") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::s8}) {
      for (int64_t step : {2, 3, 4, -1, -2}) {
        for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, 201}) {
          LoopBuilder t;
          t.dim(n);
          const int64_t elements = (n - 1) * std::abs(step) + 1;
          const LoopValue x = t.load(t.input(d, elements, {step}, step < 0 ? elements - 1 : 0));
          t.store(t.output(d, n, {1}), x);
          INFO(std::string(row(d).name), " ", step, " ", n);
          CHECK(check_program(t.program(), 4, build) == "");
        }
      }
    }
  }
}

TEST_CASE("stages: layer norm and softmax in one program") {
  for (const auto& build : kBuilds) {
    for (int64_t columns : {1, 3, 8, 37, 64, 768, 20000}) {
      CHECK(check_program(gelu_layer_norm(5, columns), 1, build, 20, 1e-5) == "");
      CHECK(check_program(softmax({{6}, {columns, true}}, {columns, 1}, 6 * columns), 2, build, 20, 1e-6) == "");
      CHECK(check_program(softmax({{columns, true}, {6}}, {6, 1}, 6 * columns), 3, build, 20, 1e-6) == "");
    }
    CHECK(check_program(gelu_layer_norm(3, 100, Dtype::bf16), 4, build, 70000, 1e-2) == "");
    CHECK(check_program(softmax({{2}, {9, true}, {5}, {11, true}}, {495, 55, 11, 1}, 990), 5, build, 20, 1e-6) == "");
    CHECK(check_program(softmax({{2}, {9, true}, {50}}, {450, 50, 1}, 900, Dtype::f64), 6, build, 20, 1e-14) == "");
    CHECK(check_program(softmax({{300000, true}}, {1}, 300000), 7, build, 20, 1e-5) == "");
  }
}

TEST_CASE("reductions of every kind and type, along rows, columns and everything") {
  for (const auto& build : kBuilds) {
    for (LoopOp op = LoopOp::reduce_sum; op < LoopOp::count; op = LoopOp(int(op) + 1)) {
      for (Dtype d : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::s8, Dtype::u8, Dtype::s16, Dtype::s32, Dtype::u32,
                      Dtype::s64, Dtype::u64, Dtype::boolean, Dtype::s4, Dtype::u2}) {
        bool bits_only = op >= LoopOp::reduce_and;
        if (bits_only ? is_floating(d) : d == Dtype::boolean && op <= LoopOp::reduce_prod) continue;
        INFO(std::string(row(op).name), " ", std::string(row(d).name));
        double near = is_floating(d) && op <= LoopOp::reduce_prod ? 1e-4 : 0, ulps = near ? 200 : 0;
        CHECK(check_program(reduction(op, d, {{4}, {77, true}}, {77, 1}, 308), 1, build, ulps, near) == "");
        CHECK(check_program(reduction(op, d, {{77, true}, {4}}, {4, 1}, 308), 2, build, ulps, near) == "");
        CHECK(check_program(reduction(op, d, {{3}, {5, true}, {21}, {4, true}}, {420, 84, 4, 1}, 1260), 3, build, ulps,
                            near) == "");
        CHECK(check_program(reduction(op, d, {{3}, {0, true}}, {0, 1}, 0), 4, build) == "");
      }
    }
  }
}

TEST_CASE("long reductions: any number of threads gives the same bits") {
  ThreadPool one(1), three(3);
  for (const auto& dims : {std::vector<LoopDim>{{1000003, true}},
                           {{2}, {300001, true}},
                           {{40000, true}, {24}},
                           {{3000, true}, {203}},
                           {{2}, {1700, true}, {301}}}) {
    int64_t elements = 1;
    std::vector<int64_t> strides(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
      strides[d] = elements;
      elements *= dims[d].size;
    }
    LoopProgram p = reduction(LoopOp::reduce_sum, Dtype::f32, dims, strides, elements);
    for (const auto& build : kBuilds) {
      auto kernel = host::prepare(p, build);
      REQUIRE(kernel);
      test::LoopBuffers a = test::random_buffers(p, 1), b = a, c = a;
      {
        ThreadPool::Use use(one);
        host::run(*kernel, a.pointers());
      }
      {
        ThreadPool::Use use(three);
        host::run(*kernel, b.pointers());
      }
      CHECK(a.data == b.data);
      double sum = 0, magnitude = 0;
      auto* x = reinterpret_cast<const float*>(a.data[0].data());
      for (int64_t i = 0; i < elements; i += dims.size() == 1 ? 1 : elements) sum += x[i], magnitude += std::fabs(x[i]);
      if (dims.size() > 1) continue;
      float got = *reinterpret_cast<const float*>(a.data[1].data());
      CHECK(std::fabs(got - sum) <= 1e-6 * magnitude);
    }
  }
}

TEST_CASE("in place: an output may be the input read at the same elements") {
  for (const auto& build : kBuilds) {
    LoopProgram p = softmax({{6}, {300, true}}, {300, 1}, 1800);
    auto kernel = host::prepare(p, build);
    REQUIRE(kernel);
    test::LoopBuffers apart = test::random_buffers(p, 1), in_place = apart;
    host::run(*kernel, apart.pointers());
    std::vector<void*> same = {in_place.data[0].data(), in_place.data[0].data()};
    host::run(*kernel, same);
    CHECK(std::memcmp(in_place.data[0].data(), apart.data[1].data(), 1800 * 4) == 0);
  }
}

TEST_CASE("a call on memory that stays gives the same at every run") {
  for (const auto& build : kBuilds) {
    for (const LoopProgram& p :
         {add_program({}, {}, {}, {}, 1), add_program({13}, {1}, {1}, {1}, 13), softmax({{40, true}}, {1}, 40),
          softmax({{6}, {300, true}}, {300, 1}, 1800), add_program({70, 90}, {1, 70}, {90, 1}, {90, 1}, 6300)}) {
      auto kernel = host::prepare(p, build);
      REQUIRE(kernel);
      test::LoopBuffers want = test::random_buffers(p, 1), got = want;
      const std::vector<std::byte> before = want.data.back();
      host::run(*kernel, want.pointers());
      std::vector<std::byte> memory(host::LoopCall::scratch_bytes(*kernel) + 64);
      const host::LoopCall call(*kernel, got.pointers(),
                                memory.data() + 64 - reinterpret_cast<size_t>(memory.data()) % 64);
      for (int round = 0; round < 3; ++round) {
        std::copy(before.begin(), before.end(), got.data.back().begin());
        call.run();
        CHECK(got.data == want.data);
      }
    }
  }
}

TEST_CASE("iota of each kind of loop") {
  for (const auto& build : kBuilds) {
    for (Dtype d : {Dtype::s32, Dtype::f32, Dtype::u8, Dtype::s64, Dtype::f64}) {
      LoopBuilder t;
      t.dim(3);
      t.dim(300, true);
      t.dim(2, true);
      uint32_t all = t.output(d, 1800, {600, 2, 1}), rows = t.output(d, 3, {1, 0, 0});
      LoopValue i = t.iota(d, 0), j = t.iota(d, 1), k = t.iota(d, 2);
      t.store(all, t.binary(LoopOp::sub, t.binary(LoopOp::add, i, j), k));
      LoopValue sum = t.unary(LoopOp::reduce_max, j);
      t.once();
      t.store(rows, t.binary(LoopOp::add, sum, t.iota(d, 0)));
      CHECK(check_program(t.program(), 1, build) == "");
    }
  }
}

// out[i, j] = table[7 i + index[i, j]], of which 40 lie beyond the rows' own.
static LoopProgram picked(Dtype dtype, int64_t columns, int64_t across) {
  LoopBuilder t;
  t.dim(5);
  t.dim(columns);
  const int64_t reach = 4 * 7 + (columns - 1) * std::abs(across) + 40;
  const uint32_t table = t.input(dtype, reach + 1, {7, across}, across < 0 ? -across * (columns - 1) : 0);
  const uint32_t index = t.input(Dtype::s32, 5 * columns, {columns, 1});
  t.store(t.output(dtype, 5 * columns, {columns, 1}), t.pick(table, t.load(index), 40));
  return t.take();
}

TEST_CASE("picks: every format, whole vectors and tails, indices below and beyond") {
  for (const host::LoopOptions& build : kBuilds)
    for (Dtype d : {Dtype::f32, Dtype::s32, Dtype::bf16, Dtype::f16, Dtype::s8, Dtype::u8, Dtype::s16, Dtype::u16,
                    Dtype::boolean, Dtype::f64, Dtype::s64, Dtype::f8e4m3fn, Dtype::s4})
      for (int64_t columns : {1, 3, 8, 13, 100, 1500})
        for (int64_t across : {0, 1, 3, -2}) CHECK(check_program(picked(d, columns, across), 3, build) == "");
}

TEST_CASE("a pick that may leave its buffer, or whose index is no s32, is refused") {
  LoopProgram p = picked(Dtype::f32, 8, 0);
  p.insns[1].bits = 41;
  auto beyond = host::prepare(p);
  REQUIRE(!beyond);
  CHECK(beyond.error().message.find("reaches from element 0 to 69 of 69") != std::string::npos);
  p = picked(Dtype::f32, 8, 0);
  p.operands[1].dtype = p.insns[0].type = Dtype::u32;
  auto other = host::prepare(p);
  REQUIRE(!other);
  CHECK(other.error().message.find("input 0 is u32, not s32") != std::string::npos);
}

TEST_CASE("programs that are not legal are refused with a reason") {
  auto refused = [](const LoopProgram& p, std::string_view why) {
    auto kernel = host::prepare(p);
    REQUIRE(!kernel);
    CHECK_MESSAGE(kernel.error().message.find(why) != std::string::npos, kernel.error().message);
  };
  refused(add_program({7, 33}, {33, 1}, {0, 1}, {33, 1}, 230), "reaches from element 0 to 230 of 230");
  refused(add_program({7, 33}, {33, 1}, {0, 1}, {0, 1}, 231), "written twice");
  refused(add_program({7, 33}, {33}, {0, 1}, {33, 1}, 231), "1 strides for 2 dims");
  refused(add_program({int64_t{1} << 40, int64_t{1} << 40}, {0, 0}, {0, 0}, {1, 1}, 1), "2^48");
  refused(add_program({-1}, {1}, {1}, {1}, 1), "size -1");
  LoopProgram p = softmax({{6}, {300, true}}, {300, 1}, 1800);
  for (LoopInsn& n : p.insns) {
    if (row(n.op).kind == LoopOpClass::reduce) n.stage = uint16_t(p.stages.size());
  }
  refused(p, "stage 4 of 4");
  p = softmax({{6}, {300, true}}, {300, 1}, 1800);
  p.insns[1].in[0] = 9;
  refused(p, "not defined before");
  p = softmax({{6}, {300, true}}, {300, 1}, 1800);
  p.insns[0].type = Dtype::f64;
  refused(p, "its operand f32");
}

TEST_CASE("text names everything") {
  CHECK(text(reduction(LoopOp::reduce_sum, Dtype::bf16, {{4}, {77, true}}, {77, 1}, 308)) ==
        "dims row 4 inner 77\n@0 in bf16[308] 0 + 77 + 1\n@1 out bf16[4] 0 + 1 + 0\n"
        "each\n  %0 = load f32 @0\n  %1 = reduce_sum f32 %0\nonce\n  store @1 %1\n");
}
