// Rows whose result element depends on the same element of the data: copies, fills, one- and two-tile arithmetic.
// Arithmetic is f32 with casts on the way in and out; bitvec operators see raw bits; GpSimd has exact 32-bit integers.
#include <cstring>
#include <vector>

#include "arch/insns/alu.h"
#include "arch/insns/lanes.h"
#include "arch/insns/vector.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// --- tensor_copy ---

void tensor_copy(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  if (d.dtype != s.dtype) {
    map_rows(c, i, "dst", "src", [](const float* a, float* out, int64_t n) { std::copy(a, a + n, out); });
    return;
  }
  copy_bytes(c, d, "dst", s, "src", !clobbers(d, s));
}

Cost tensor_copy_cycles(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  const double speedup = copy_speedup(k, i, d, s);
  return interval(k, i, static_cast<double>(s.row_elements) / speedup, speedup > 1 && i.engine == Engine::vector);
}

// Without an exact copy Scalar has its activation, which goes through f32: floats alone pass unchanged.
Result<void> scalar_moves(const Chip& k, const Call& i, std::initializer_list<std::string_view> slots) {
  if (k.has(Feature::scalar_copy)) return {};
  for (const auto slot : slots)
    if (const Dtype d = i.tile(slot).dtype; !is_floating(d))
      return fail(Code::unsupported, cat(slot, " is ", row(d).name, ", and the Scalar engine of ", k.name,
                                         " moves floats only, through f32; use Vector"));
  return {};
}

Result<void> tensor_copy_check(const Chip& k, const Call& i) {
  if (i.engine == Engine::scalar) TRY(scalar_moves(k, i, {"dst", "src"}));
  if (i.tile("dst").dtype != i.tile("src").dtype) TRY(computable(i));
  return same_shape(i, {"src", "dst"});
}

// --- memset ---

// The constant is rounded once, to nearest even, as a compiler would have done.
void memset(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const double value = i.real("value");
  Rounding nearest;
  const uint64_t bits = is_floating(d.dtype) ? row(d.dtype).round(static_cast<float>(value), nearest)
                                             : static_cast<uint64_t>(static_cast<int64_t>(value));
  const size_t size = static_cast<size_t>(d.element_bytes());
  std::vector<std::byte>& bytes = byte_room(static_cast<size_t>(d.row_elements) * size);
  for (size_t e = 0; e < bytes.size(); e += size) std::memcpy(bytes.data() + e, &bits, size);
  c.set_slot("dst");
  c.fill_bytes(d, bytes.data());
}

Cost memset_cycles(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst");
  const bool half = i.engine == Engine::vector && i.real("value") == 0 && is_floating(d.dtype) && bits(d.dtype) == 16;
  return interval(k, i, static_cast<double>(d.row_elements) / (half ? 2 : 1));
}

Result<void> memset_check(const Chip&, const Call& i) {
  const Dtype d = i.tile("dst").dtype;
  const double value = i.real("value");
  if (bits(d) < 8 || bits(d) > 32)
    return fail(Code::invalid, cat("dst is ", row(d).name, "; memset fills formats of 8, 16 or 32 bits"));
  if (is_floating(d)) return {};
  const double low = is_packed(d) ? 0 : row(d).min_finite, high = is_packed(d) ? 0x1p32 - 1 : row(d).max_finite;
  if (d == Dtype::boolean ? value == 0 || value == 1 : value == std::trunc(value) && value >= low && value <= high)
    return {};
  return fail(Code::invalid,
              cat("value ", value, " is no ", row(d).name, ", which dst holds; give a value of that type"));
}

// --- tensor_tensor ---

bool is_int32(Dtype d) { return d == Dtype::s32 || d == Dtype::u32; }

bool exact_integers(const Call& i) {
  return i.engine == Engine::gpsimd && is_int32(i.tile("dst").dtype) && is_int32(i.tile("data1").dtype) &&
         is_int32(i.tile("data2").dtype) && alu_has_int(i.as<Alu>("op"));
}

// estimate: add, subtract and multiply wrap around, as a processor's 32-bit integers do.
int64_t wrapped(int64_t v, Dtype d) {
  return d == Dtype::s32 ? static_cast<int64_t>(static_cast<int32_t>(v))
                         : static_cast<int64_t>(static_cast<uint32_t>(v));
}

void tensor_tensor_int(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  std::vector<int64_t> a = read_all_int(c, i, "data1");
  const std::vector<int64_t> b = read_all_int(c, i, "data2");
  alu_int(i.as<Alu>("op")).tiles(a.data(), b.data(), a.data(), d.elements());
  for (int64_t& v : a) v = wrapped(v, d.dtype);
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) c.write_int(d, p, a.data() + p * d.row_elements);
}

void tensor_tensor_bits(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  std::vector<uint32_t> a = read_all_bits(c, i, "data1");
  const std::vector<uint32_t> b = read_all_bits(c, i, "data2");
  alu_bits(i.as<Alu>("op")).tiles(a.data(), b.data(), a.data(), d.elements());
  c.set_slot("dst");
  c.write_all_bits(d, a.data());
}

void tensor_tensor(Core& c, const Call& i) {
  const Alu op = i.as<Alu>("op");
  if (is_bitvec(op)) return tensor_tensor_bits(c, i);
  if (exact_integers(i)) return tensor_tensor_int(c, i);
  const Tile d = i.tile("dst");
  Source a(c, i, "data1", d), b(c, i, "data2", d);
  const AluRow<float>& alu = alu_f32(op);
  write_rows(c, d, [&](int p, float* out) { alu.tiles(a.row(p), b.row(p), out, d.row_elements); });
}

// v2: N when one input comes over PSUM's own port or everything is plain bf16; else the two inputs take turns.
Cost tensor_tensor_cycles(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst"), a = i.tile("data1"), b = i.tile("data2");
  const double n = static_cast<double>(a.row_elements);
  const Alu op = i.as<Alu>("op");
  if (i.engine != Engine::vector) return interval(k, i, n * k.vector.two_input_factor);
  const bool inputs_sbuf = a.space == Space::sbuf && b.space == Space::sbuf;
  const bool plain = op == Alu::add || op == Alu::subtract || op == Alu::multiply;
  bool bf16 = true, fast = k.has(Feature::vector_fast_modes) && inputs_sbuf, runs = true;
  for (const Tile* t : {&d, &a, &b}) {
    bf16 &= t->dtype == Dtype::bf16 && t->space == Space::sbuf;
    fast &= half_width(k, t->dtype);
    runs &= innermost_contiguous(*t);
  }
  const double base = !inputs_sbuf || (bf16 && plain && runs) ? n : n * k.vector.two_input_factor;
  return interval(k, i, base / (fast ? k.vector.tensor_tensor_fast_factor : 1), fast);
}

Result<void> tensor_tensor_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data1", "data2", "dst"}));
  TRY(not_both_psum(i, "data1", "data2"));
  TRY(operator_check(k, i, "op"));
  const Alu op = i.as<Alu>("op");
  if (alu_is_unary(op))
    return fail(Code::invalid, cat("op=", name(op), " takes one operand; tensor_scalar and tensor_copy have those"));
  return is_bitvec(op) ? bits_check(i, {"data1", "data2", "dst"}) : Result<void>{};
}

// --- tensor_scalar ---

void tensor_scalar_bits(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const auto s0 = read_scalar_bits(c, i, "operand0"), s1 = read_scalar_bits(c, i, "operand1");
  std::vector<uint32_t> a = read_all_bits(c, i, "data");
  const AluRow<uint32_t>&op0 = alu_bits(i.as<Alu>("op0")), &op1 = alu_bits(i.as<Alu>("op1"));
  const bool reverse0 = i.attr("reverse0"), reverse1 = i.attr("reverse1");
  // Bits past the format's width must not come back through a right shift.
  const uint32_t mask = bits(d.dtype) == 32 ? ~0u : (1u << bits(d.dtype)) - 1;
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    uint32_t* const row = a.data() + p * d.row_elements;
    const size_t lane = static_cast<size_t>(p);
    apply(op0, reverse0, row, s0[lane] & mask, row, d.row_elements);
    for (int64_t e = 0; e < d.row_elements; ++e) row[e] &= mask;
    apply(op1, reverse1, row, s1[lane] & mask, row, d.row_elements);
  }
  c.write_all_bits(d, a.data());
}

void tensor_scalar(Core& c, const Call& i) {
  const Alu first = i.as<Alu>("op0"), second = i.as<Alu>("op1");
  if (is_bitvec(first) || is_bitvec(second)) return tensor_scalar_bits(c, i);
  const Scalars s0 = read_scalars(c, i, "operand0"), s1 = read_scalars(c, i, "operand1");
  const AluRow<float>&op0 = alu_f32(first), *op1 = second == Alu::bypass ? nullptr : &alu_f32(second);
  const bool reverse0 = i.attr("reverse0"), reverse1 = i.attr("reverse1");
  const Tile d = i.tile("dst");
  Source a(c, i, "data", d);
  write_rows(c, d, [&](int p, float* out) {
    const size_t lane = static_cast<size_t>(p);
    apply(op0, reverse0, a.row(p), s0[lane], out, d.row_elements);
    if (op1) apply(*op1, reverse1, out, s1[lane], out, d.row_elements);
  });
}

Cost tensor_scalar_cycles(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst"), a = i.tile("data");
  const double n = static_cast<double>(a.row_elements);
  if (i.engine == Engine::gpsimd) return interval(k, i, 4 * std::max(k.scalar.interval_min_cycles, n));
  const double speedup = copy_speedup(k, i, d, a);
  return interval(k, i, n / speedup, speedup > 1 && i.engine == Engine::vector);
}

Result<void> tensor_scalar_engine_check(const Chip& k, const Call& i) {
  const Alu op0 = i.as<Alu>("op0"), op1 = i.as<Alu>("op1");
  if (i.engine == Engine::gpsimd && (op0 != Alu::rsqrt || op1 != Alu::bypass))
    return fail(Code::invalid, cat("op0=", name(op0), " op1=", name(op1),
                                   ": on gpsimd tensor_scalar computes op0=rsqrt alone; run it on vector"));
  if (i.engine != Engine::scalar) return {};
  TRY(scalar_moves(k, i, {"dst", "data"}));
  const bool one = (op0 == Alu::multiply || op0 == Alu::add) && op1 == Alu::bypass;
  if (one || (op0 == Alu::multiply && op1 == Alu::add)) return {};
  return fail(Code::invalid, cat("op0=", name(op0), " op1=", name(op1),
                                 ": the Scalar engine has multiply, add, and multiply then add; run it on vector"));
}

Result<void> tensor_scalar_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(tensor_scalar_engine_check(k, i));
  TRY(operator_check(k, i, "op0"));
  TRY(operator_check(k, i, "op1"));
  const Alu op0 = i.as<Alu>("op0"), op1 = i.as<Alu>("op1");
  if (op0 != Alu::bypass && op1 != Alu::bypass && is_bitvec(op0) != is_bitvec(op1))
    return fail(Code::invalid,
                cat("op0=", name(op0), " and op1=", name(op1), " mix arithmetic and bits; use two instructions"));
  TRY(operand_check(i, "op0", "operand0"));
  TRY(operand_check(i, "op1", "operand1"));
  const bool bitwise = is_bitvec(op0) || is_bitvec(op1);
  return bitwise ? bits_check(i, {"data", "operand0", "operand1", "dst"}) : Result<void>{};
}

constexpr Row kRows[] = {
    {.name = "tensor_copy",
     .opcode = 0x20,
     .engines = kVector | kScalar | kGpsimd,
     .operands = "dst:w:sbuf|psum src:r:sbuf|psum",
     .exec = tensor_copy,
     .cycles = tensor_copy_cycles,
     .check = tensor_copy_check,
     .summary = "dst = src; bit for bit where the formats match, else through f32",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N), register offsets max(600, N); guides v3, v4: N/4, N/2",
     .label = "TENSOR_COPY"},
    {.name = "memset",
     .opcode = 0x21,
     .engines = kVector | kGpsimd,
     .operands = "dst:w:sbuf|psum",
     .attrs = "value:float",
     .exec = memset,
     .cycles = memset_cycles,
     .check = memset_check,
     .summary = "dst = value",
     .source = "doc: nki.isa 2.26.1, N/2 for zeros in 16-bit floats, else N; estimate: gpsimd as N",
     .label = "MEMSET"},
    {.name = "tensor_tensor",
     .opcode = 0x22,
     .engines = kVector | kGpsimd,
     .operands = "dst:w:sbuf|psum data1:r:sbuf|psum data2:r:sbuf|psum",
     .attrs = "op:alu",
     .exec = tensor_tensor,
     .cycles = tensor_tensor_cycles,
     .check = tensor_tensor_check,
     .summary = "dst = data1 op data2; exact for 32-bit integers on gpsimd, else f32; bitwise on raw bits",
     .source = "doc: nki.isa 2.26.1, N or 2N; estimate: the v3 fast mode halves either, gpsimd 2N",
     .label = "TENSOR_TENSOR"},
    {.name = "tensor_scalar",
     .opcode = 0x23,
     .engines = kVector | kScalar | kGpsimd,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum operand0?:r:sbuf|psum|imm operand1?:r:sbuf|psum|imm",
     .attrs = "op0:alu reverse0:bool=false op1:alu=bypass reverse1:bool=false",
     .exec = tensor_scalar,
     .cycles = tensor_scalar_cycles,
     .check = tensor_scalar_check,
     .summary = "dst = (data op0 operand0) op1 operand1, one operand value per partition",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N); guides v3, v4: N/4, N/2; gpsimd rsqrt 4x Scalar's",
     .label = "TENSOR_SCALAR"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> vector_elementwise_rows() { return kRows; }

}  // namespace trine::arch
