// Types: codes of MLIR's BuiltinDialectBytecode.td and StableHLO's VhloBytecode.cpp and StablehloBytecode.cpp.
#include <bit>

#include "front/stablehlo/build.h"
#include "front/stablehlo/bytecode/attr.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/text/text.h"

namespace trine::front::stablehlo {

namespace {

enum : uint64_t {
  kInteger = 0,
  kFunction = 2,
  kComplex = 9,
  kMemref = 10,
  kNone = 12,
  kTensor = 13,
  kTensorWithEncoding = 14,
  kTuple = 15,
  kUnrankedTensor = 18,
};

enum : uint64_t {
  kVhloComplex = 1,
  kVhloFunction = 8,
  kVhloTensor = 20,
  kVhloTensorWithEncoding = 21,
  kVhloToken = 22,
  kVhloTuple = 23,
  kVhloQuantized = 24,
  kVhloUnrankedTensor = 25,
  kVhloWitness = 26,
  kVhloQuantizedPerAxis = 30,
  kVhloNone = 33,
  kVhloBuffer = 41,
  kVhloFuture = 42,
};

// Width and signedness of MLIR's integer type, where StableHLO has it.
std::optional<Scalar> integer_type(uint64_t width_and_sign) {
  const uint64_t width = width_and_sign >> 2, sign = width_and_sign & 3;
  if (width > 64 || sign == 1 || sign == 3) return std::nullopt;
  return scalar_by_name(cat(sign == 2 ? "ui" : "i", width));
}

}  // namespace

Result<TypeId> AttrReader::type(Bytes& from) {
  const uint64_t number = TRY(from.varint("a type's number"));
  return type_by_number(number, from);
}

Result<TypeId> AttrReader::type_by_number(uint64_t number, const Bytes& from) {
  if (number >= types_.size()) return from.error(cat("type ", number, " of ", types_.size()));
  Slot<TypeId>& slot = types_[number];
  if (slot.id != TypeId::none) return slot.id;
  if (slot.reading) return from.error(cat("type ", number, " contains itself"));
  if (depth_ >= kDepthMax) return from.error(cat("types nested more than ", kDepthMax, " deep"));
  slot.reading = true;
  ++depth_;
  auto read = read_type(container_.types[number]);
  --depth_;
  slot.reading = false;
  if (read) {
    slot.id = *read;
  } else if (read.error().where.empty()) {
    return fail(read.error().code, read.error().message, cat("byte ", container_.types[number].bytes.offset()));
  }
  return read;
}

Result<TypeId> AttrReader::read_type(const Entry& entry) {
  Bytes from = entry.bytes;
  if (!entry.custom) {
    const std::string_view text = TRY(from.until_zero("a type's text"));
    return parse_type(module_, text);
  }
  const uint64_t code = TRY(from.varint("a type's code"));
  TypeId id{};
  if (entry.dialect == "builtin") {
    id = TRY(read_builtin_type(code, from));
  } else if (entry.dialect == "vhlo") {
    id = TRY(read_vhlo_type(code, from));
  } else if (entry.dialect == "stablehlo" && code <= 1) {
    Type type{.kind = code == 0 ? TypeKind::token : TypeKind::future};
    if (code == 1) type.inputs = TRY(read_types(from));
    id = TRY(module_.intern(std::move(type)));
  } else {
    return fail(Code::unsupported, cat("a type of dialect ", entry.dialect, " with code ", code));
  }
  if (from.left() > 0) return from.error(cat(from.left(), " bytes after the end of a type"));
  return id;
}

Result<TypeId> AttrReader::read_builtin_type(uint64_t code, Bytes& from) {
  if (code == kInteger) {
    const uint64_t width = TRY(from.varint("an integer type's width"));
    const auto scalar = integer_type(width);
    if (!scalar)
      return fail(Code::unsupported, cat("an integer type of ", width >> 2, " bits and signedness ", width & 3));
    return make_scalar(module_, *scalar);
  }
  if (const auto scalar = scalar_by_builtin(code)) return make_scalar(module_, *scalar);
  Type type;
  switch (code) {
    case kFunction:
      type.kind = TypeKind::function;
      type.inputs = TRY(read_types(from));
      type.results = TRY(read_types(from));
      break;
    case kComplex:
      type = {.kind = TypeKind::complex, .element = TRY(this->type(from))};
      break;
    case kNone:
      break;
    case kMemref:
      type = TRY(read_shaped(TypeKind::buffer, false, from));
      TRY(attr(from));  // its layout: always the identity here
      break;
    case kTensor:
    case kTensorWithEncoding:
      type = TRY(read_shaped(TypeKind::tensor, code == kTensorWithEncoding, from));
      break;
    case kTuple:
      type.kind = TypeKind::tuple;
      type.inputs = TRY(read_types(from));
      break;
    case kUnrankedTensor:
      type = {.kind = TypeKind::unranked_tensor, .element = TRY(this->type(from))};
      break;
    default:
      return fail(Code::unsupported, cat("a builtin type of code ", code));
  }
  TRY(check_type(module_, type));
  return module_.intern(std::move(type));
}

Result<TypeId> AttrReader::read_vhlo_type(uint64_t code, Bytes& from) {
  if (const auto scalar = scalar_by_vhlo(code)) return make_scalar(module_, *scalar);
  Type type;
  switch (code) {
    case kVhloComplex:
      type = {.kind = TypeKind::complex, .element = TRY(this->type(from))};
      break;
    case kVhloFunction:
      type.kind = TypeKind::function;
      type.inputs = TRY(read_types(from));
      type.results = TRY(read_types(from));
      break;
    case kVhloTensor:
    case kVhloTensorWithEncoding:
      type = TRY(read_shaped(TypeKind::tensor, code == kVhloTensorWithEncoding, from));
      break;
    case kVhloToken:
      type.kind = TypeKind::token;
      break;
    case kVhloTuple:
    case kVhloFuture:
      type.kind = code == kVhloTuple ? TypeKind::tuple : TypeKind::future;
      type.inputs = TRY(read_types(from));
      break;
    case kVhloQuantized:
    case kVhloQuantizedPerAxis:
      return read_quantized(code == kVhloQuantizedPerAxis, from);
    case kVhloUnrankedTensor:
      type = {.kind = TypeKind::unranked_tensor, .element = TRY(this->type(from))};
      break;
    case kVhloWitness:
      type.kind = TypeKind::witness;
      break;
    case kVhloNone:
      break;
    case kVhloBuffer:
      type = TRY(read_shaped(TypeKind::buffer, false, from));
      break;
    default:
      return fail(Code::unsupported, cat("a VHLO type of code ", code));
  }
  TRY(check_type(module_, type));
  return module_.intern(std::move(type));
}

Result<Type> AttrReader::read_shaped(TypeKind kind, bool encoded, Bytes& from) {
  Type type{.kind = kind};
  if (encoded) type.encoding = TRY(attr(from));
  type.shape = TRY(read_integers(from));
  type.element = TRY(this->type(from));
  return type;
}

Result<TypeId> AttrReader::read_quantized(bool per_axis, Bytes& from) {
  Quantization q;
  q.flags = uint32_t(TRY(from.below(2, "quantization flags")));
  q.storage = TRY(type(from));
  q.expressed = TRY(type(from));
  if (per_axis) {
    q.axis = int64_t(TRY(from.below(1 << 16, "a quantized dimension")));
    q.min = TRY(from.signed_varint("the smallest storage value"));
    q.max = TRY(from.signed_varint("the largest storage value"));
    const uint64_t scales = TRY(from.count("the number of scales"));
    for (uint64_t i = 0; i < scales; ++i) q.scales.push_back(std::bit_cast<double>(TRY(read_bits(64, from))));
    q.zero_points = TRY(read_integers(from));
  } else {
    q.scales = {std::bit_cast<double>(TRY(read_bits(64, from)))};
    q.zero_points = {TRY(from.signed_varint("a zero point"))};
    q.min = TRY(from.signed_varint("the smallest storage value"));
    q.max = TRY(from.signed_varint("the largest storage value"));
  }
  Type type{.kind = TypeKind::quantized, .quantization = std::move(q)};
  TRY(check_type(module_, type));
  return module_.intern(std::move(type));
}

Result<std::vector<TypeId>> AttrReader::read_types(Bytes& from) {
  const uint64_t n = TRY(from.count("the length of a list of types"));
  std::vector<TypeId> out;
  for (uint64_t i = 0; i < n; ++i) out.push_back(TRY(type(from)));
  return out;
}

}  // namespace trine::front::stablehlo
