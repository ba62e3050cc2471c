// bitcast_convert: the same bits read as the declared dtype. C1: a wider element is the last dim of narrower ones, the
// lowest bits first; else the dims stay. C2: packed carriers have no bits to read,
// booleans are read as booleans alone. C3: one width is a multiple of the other.
#include "ops/elementwise.h"

namespace trine::ops {

namespace {

int width(Dtype dtype) { return row(dtype).bits; }

Inferred infer(const Call& call) {
  if (call.declared.size() != 1) return fail(Code::invalid, "its result type must be given");
  const ir::Type &from = call.inputs[0], &to = call.declared[0];
  for (Dtype dtype : {from.dtype, to.dtype})
    if (row(dtype).kind == DtypeKind::packed || (dtype == Dtype::boolean && from.dtype != to.dtype))
      return no_dtype("", dtype);
  const int a = width(from.dtype), b = width(to.dtype);
  if (std::max(a, b) % std::min(a, b))
    return fail(Code::invalid, cat(row(from.dtype).name, " and ", row(to.dtype).name, " do not fill each other"));
  Dims dims = from.dims;
  if (a > b) dims.push_back(a / b);
  if (a < b) {
    if (dims.empty() || dims.back() != b / a)
      return fail(Code::invalid, cat("the last dim of ", ir::text(from), " must be ", b / a));
    dims.pop_back();
  }
  return one_type(to.dtype, std::move(dims));
}

// Sub-byte elements lie in a byte each, signed ones extended; their own bits are the lowest.
uint64_t narrow_bits(const TensorView& t, int64_t at) {
  return t.as<const uint8_t>()[at] & ((1u << width(t.dtype)) - 1);
}

void put_narrow(const TensorView& t, int64_t at, uint64_t bits) {
  const bool is_signed = row(t.dtype).kind == DtypeKind::signed_int;
  const int up = 8 - width(t.dtype);
  const auto lifted = uint8_t(bits << up);
  t.as<uint8_t>()[at] = is_signed ? uint8_t(int8_t(lifted) >> up) : uint8_t(lifted >> up);
}

Result<void> eval(const Eval& e) {
  const TensorView &in = e.in[0], &out = e.out[0];
  const int a = width(in.dtype), b = width(out.dtype);
  if (a >= 8 && b >= 8) {
    std::copy_n(in.as<const std::byte>(), in.bytes(), out.as<std::byte>());
    return {};
  }
  // One of them is narrower than a byte: go through groups of `unit` bits, that many of each.
  const int unit = std::min(a, b);
  const int64_t total = in.elements() * a / unit;
  for (int64_t i = 0; i < total; ++i) {
    const int64_t from = i * unit / a, to = i * unit / b;
    const int low_in = int(i * unit % a), low_out = int(i * unit % b);
    const uint64_t mask = (1u << unit) - 1;
    const uint64_t source = a < 8 ? narrow_bits(in, from) >> low_in
                                  : uint64_t(in.as<const uint8_t>()[(from * a + low_in) / 8]) >> (low_in % 8);
    const uint64_t bits = source & mask;
    if (b < 8) {
      const uint64_t before = low_out ? narrow_bits(out, to) : 0;
      put_narrow(out, to, before | bits << low_out);
    } else {
      uint8_t& byte = out.as<uint8_t>()[(to * b + low_out) / 8];
      byte = uint8_t((low_out % 8 ? byte : 0) | bits << (low_out % 8));
    }
  }
  return {};
}

}  // namespace

extern const Op op_bitcast_convert{.name = "bitcast_convert",
                                   .kind = OpKind::shape,
                                   .arity = 1,
                                   .infer = infer,
                                   .eval = eval,
                                   .host = {.op = arch::LoopOp::bit_cast}};

}  // namespace trine::ops
