// Attributes: codes of MLIR's BuiltinDialectBytecode.td, StableHLO's VhloBytecode.cpp and, by their rows in records.h,
// StableHLO's, CHLO's and Shardy's own.
#include "front/stablehlo/bytecode/attr.h"

#include "front/stablehlo/build.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/dense.h"
#include "front/stablehlo/text/text.h"

namespace trine::front::stablehlo {

namespace {

enum : uint64_t {
  kArray,
  kDictionary,
  kString,
  kTypedString,
  kFlatSymbol,
  kSymbol,
  kType,
  kUnit,
  kInteger,
  kFloat,
  kCallLoc,
  kFileLoc,
  kFusedLoc,
  kFusedLocWithMetadata,
  kNameLoc,
  kUnknownLoc,
  kDenseResource,
  kDenseArray,
  kDense,
  kRangeLoc = 22,
};

enum : uint64_t {
  kVhloArray = 1,
  kVhloBoolean = 2,
  kVhloApiVersion = 5,
  kVhloDictionary = 6,
  kVhloFloat = 8,
  kVhloInteger = 9,
  kVhloAlias = 10,
  kVhloString = 14,
  kVhloTensor = 15,
  kVhloType = 17,
  kVhloBounds = 18,
  kVhloAccuracy = 20,
};

Error at(Error error, const Bytes& from) {
  if (error.where.empty()) error.where = cat("byte ", from.offset());
  return error;
}

template <class T>
Result<T> with_position(Result<T> result, const Bytes& from) {
  if (!result) return at(result.error(), from);
  return result;
}

}  // namespace

AttrReader::AttrReader(const Container& container, Module& module)
    : container_(container), module_(module), attrs_(container.attrs.size()), types_(container.types.size()) {}

Result<AttrId> AttrReader::attr(Bytes& from) {
  const uint64_t number = TRY(from.varint("an attribute's number"));
  return attr_by_number(number, from);
}

Result<AttrId> AttrReader::optional_attr(Bytes& from) {
  const Flagged number = TRY(from.flagged("an attribute's number"));
  if (!number.flag) return AttrId::none;
  return attr_by_number(number.value, from);
}

Result<AttrId> AttrReader::attr_by_number(uint64_t number, const Bytes& from) {
  if (number >= attrs_.size()) return from.error(cat("attribute ", number, " of ", attrs_.size()));
  Slot<AttrId>& slot = attrs_[number];
  if (slot.id != AttrId::none) return slot.id;
  if (slot.reading) return from.error(cat("attribute ", number, " contains itself"));
  if (depth_ >= kDepthMax) return from.error(cat("attributes nested more than ", kDepthMax, " deep"));
  slot.reading = true;
  ++depth_;
  auto read = with_position(read_attr(container_.attrs[number]), container_.attrs[number].bytes);
  --depth_;
  slot.reading = false;
  if (read) slot.id = *read;
  return read;
}

Result<AttrId> AttrReader::location(Bytes& from) {
  const uint64_t number = TRY(from.varint("a location's number"));
  return location_by_number(number, from);
}

Result<AttrId> AttrReader::location_by_number(uint64_t number, const Bytes& from) {
  const AttrId id = TRY(attr_by_number(number, from));
  const std::string_view name = module_.attr(id).name;
  if (!name.starts_with("loc.")) return from.error("a location that is another kind of attribute");
  return name == "loc.unknown" ? AttrId::none : id;
}

Result<AttrId> AttrReader::read_attr(const Entry& entry) {
  Bytes from = entry.bytes;
  if (!entry.custom) {
    const std::string_view text = TRY(from.until_zero("an attribute's text"));
    return parse_attr(module_, text);
  }
  const Bytes before = from;
  const uint64_t code = TRY(from.varint("an attribute's code"));
  AttrId id{};
  if (entry.dialect == "builtin") {
    id = TRY(with_position(read_builtin(code, from), before));
  } else if (entry.dialect == "vhlo") {
    id = TRY(with_position(read_vhlo(code, from), before));
  } else {
    id = TRY(with_position(read_dialect(entry.dialect, code, from), before));
  }
  if (from.left() > 0) return from.error(cat(from.left(), " bytes after the end of an attribute of ", entry.dialect));
  return id;
}

Result<AttrId> AttrReader::read_builtin(uint64_t code, Bytes& from) {
  switch (code) {
    case kArray:
      return make_array(module_, TRY(read_attrs(from)));
    case kDictionary:
      return read_dictionary(from);
    case kString:
      return make_string(module_, TRY(read_string(from)));
    case kFlatSymbol:
      return make_symbol(module_, TRY(read_string_attr(from)));
    case kSymbol: {
      Attr symbol{.kind = AttrKind::symbol, .text = TRY(read_string_attr(from))};
      symbol.elements = TRY(read_attrs(from));
      for (AttrId nested : symbol.elements)
        if (module_.attr(nested).kind != AttrKind::symbol || !module_.attr(nested).elements.empty())
          return from.error("a nested symbol that is not a plain one");
      return module_.intern(std::move(symbol));
    }
    case kType:
      return make_type(module_, TRY(type(from)));
    case kUnit:
      return module_.intern(Attr{});
    case kInteger:
    case kFloat:
      return read_number(from, code == kFloat);
    case kRangeLoc:
      return read_range_location(from);
    case kFusedLoc:
      return read_record(*record_by_name("loc.fused"), 1, from);
    case kFusedLocWithMetadata: {
      std::vector<AttrId> fields = {TRY(make_array(module_, TRY(read_attrs(from))))};
      fields.push_back(TRY(attr(from)));
      return make_record(module_, *record_by_name("loc.fused"), std::move(fields));
    }
    case kCallLoc:
    case kFileLoc:
    case kNameLoc:
    case kUnknownLoc: {
      const RecordRow* row = record_by_code("loc", code);
      return read_record(*row, row->fields.size(), from);
    }
    case kDenseResource:
    case kDenseArray:
    case kDense:
      return read_builtin_dense(code, from);
    default:
      return fail(Code::unsupported, cat("a builtin attribute of code ", code));
  }
}

Result<AttrId> AttrReader::read_builtin_dense(uint64_t code, Bytes& from) {
  const TypeId type = TRY(this->type(from));
  if (code == kDenseResource) {
    const uint64_t handle = TRY(from.below(container_.resources.size(), "a resource's number"));
    const Resource& resource = container_.resources[handle];
    if (resource.blob.empty())
      return fail(Code::unsupported, cat("a constant whose resource ", resource.name, " is not in the file"));
    return make_dense(module_, type, resource.blob);
  }
  uint64_t count = 0;
  if (code == kDenseArray) count = TRY(from.varint("the length of an array"));
  const uint64_t size = TRY(from.varint("the size of a blob"));
  const std::string_view blob = TRY(from.take(size, "a blob")).rest();
  if (code == kDense) return make_dense_from_blob(module_, type, blob);
  if (!is_packable(module_.type(type))) return fail(Code::invalid, "an array of another type than MLIR has");
  const Scalar element = module_.type(type).scalar;
  const auto width = uint64_t(bytes(element));
  if (count > blob.size() || count * width != blob.size())
    return fail(Code::invalid, cat("an array of ", count, " elements of ", width, " bytes in ", blob.size(), " bytes"));
  if (element == Scalar::i1 && blob.find_first_not_of(std::string_view("\0\1", 2)) != std::string_view::npos)
    return fail(Code::invalid, "an array of booleans with a byte that is neither 0 nor 1");
  return module_.intern(Attr{.kind = AttrKind::packed, .type = type, .text = blob});
}

Result<AttrId> AttrReader::read_vhlo(uint64_t code, Bytes& from) {
  if (const EnumRow* row = enum_by_code("vhlo", code)) {
    const uint64_t value = TRY(from.below(row->values.size(), "an enumeration's value"));
    if (row->values[value].empty()) return fail(Code::invalid, cat(row->name, " has no value ", value));
    return module_.intern(Attr{.kind = AttrKind::enumeration, .name = row->name, .text = row->values[value]});
  }
  switch (code) {
    case kVhloArray:
      return make_array(module_, TRY(read_attrs(from)));
    case kVhloBoolean:
      return make_boolean(module_, TRY(from.below(2, "a boolean")) != 0);
    case kVhloApiVersion:
      return make_integer(module_, Scalar::i32, int64_t(TRY(from.below(5, "an API version"))));
    case kVhloDictionary:
      return read_dictionary(from);
    case kVhloFloat:
    case kVhloInteger:
      return read_number(from, code == kVhloFloat);
    case kVhloString:
      return make_string(module_, TRY(read_string(from)));
    case kVhloTensor:
      return read_builtin_dense(kDense, from);
    case kVhloType:
      return make_type(module_, TRY(type(from)));
    case kVhloAlias:
      return read_record(*record_by_name("stablehlo.output_operand_alias"), 3, from);
    case kVhloBounds:
      return read_record(*record_by_name("stablehlo.bounds"), 1, from);
    case kVhloAccuracy:
      return read_record(*record_by_name("stablehlo.result_accuracy"), 4, from);
    default:
      return fail(Code::unsupported, cat("a VHLO attribute of code ", code));
  }
}

// Of StableHLO, CHLO and Shardy; Shardy added fields at the end of two of its records under new codes.
Result<AttrId> AttrReader::read_dialect(std::string_view dialect, uint64_t code, Bytes& from) {
  if (dialect == "sdy" && (code == 6 || code == 15))
    return read_record(*record_by_code("sdy", 17), code == 6 ? 3 : 4, from);
  if (dialect == "sdy" && code == 16) code = 7;
  if (const EnumRow* row = enum_by_code(dialect, code)) {
    const uint64_t value = TRY(from.below(row->values.size(), "an enumeration's value"));
    if (row->values[value].empty()) return fail(Code::invalid, cat(row->name, " has no value ", value));
    return module_.intern(Attr{.kind = AttrKind::enumeration, .name = row->name, .text = row->values[value]});
  }
  const RecordRow* row = record_by_code(dialect, code);
  if (row == nullptr) return fail(Code::unsupported, cat("an attribute of dialect ", dialect, " with code ", code));
  return read_record(*row, row->fields.size(), from);
}

Result<AttrId> AttrReader::read_record(const RecordRow& row, size_t fields, Bytes& from) {
  std::vector<AttrId> out;
  for (size_t i = 0; i < row.fields.size(); ++i) {
    if (i < fields) {
      out.push_back(TRY(read_field(row.fields[i].kind, from)));
    } else {
      out.push_back(TRY(default_field(module_, row.fields[i].kind)));
    }
  }
  return make_record(module_, row, std::move(out));
}

Result<AttrId> AttrReader::read_field(FieldKind kind, Bytes& from) {
  switch (kind) {
    case FieldKind::integer:
      return make_integer(module_, Scalar::i64, TRY(from.signed_varint("an integer")));
    case FieldKind::count:
      return make_integer(module_, Scalar::i64, int64_t(TRY(from.below(uint64_t{1} << 32, "a line or column"))));
    case FieldKind::optional_integer: {
      const Flagged value = TRY(from.flagged("an integer"));
      if (!value.flag) return AttrId::none;
      return make_integer(module_, Scalar::i64, int64_t(value.value));
    }
    case FieldKind::integers:
      return make_integers(module_, TRY(read_integers(from)));
    case FieldKind::flag: {
      const uint8_t byte = TRY(from.byte("a boolean"));
      if (byte > 1) return from.error(cat("a boolean of ", byte));
      return make_boolean(module_, byte != 0);
    }
    case FieldKind::real:
      return make_float(module_, Scalar::f64, TRY(read_bits(64, from)));
    case FieldKind::text:
      return make_string(module_, TRY(read_string(from)));
    case FieldKind::type:
      return make_type(module_, TRY(type(from)));
    case FieldKind::attr:
      return attr(from);
    case FieldKind::optional_attr:
      return optional_attr(from);
    case FieldKind::attrs:
      return make_array(module_, TRY(read_attrs(from)));
  }
  return fail(Code::internal, "a kind of field without a reader");
}

// File and up to four numbers: line; column; end column, or end line and end column.
Result<AttrId> AttrReader::read_range_location(Bytes& from) {
  std::vector<AttrId> fields = {TRY(attr(from))};
  const uint64_t n = TRY(from.below(5, "the number of positions"));
  int64_t given[4] = {};
  for (uint64_t i = 0; i < n; ++i) given[i] = int64_t(TRY(from.below(uint64_t{1} << 32, "a line or column")));
  const int64_t range[] = {given[0], given[1], n == 3 ? given[0] : given[2], n == 3 ? given[2] : given[3]};
  for (size_t i = 0; i < (n <= 2 ? 2 : 4); ++i) fields.push_back(TRY(make_integer(module_, Scalar::i64, range[i])));
  return make_record(module_, *record_by_name(n <= 2 ? "loc.file" : "loc.range"), std::move(fields));
}

Result<AttrId> AttrReader::read_dictionary(Bytes& from) {
  const uint64_t n = TRY(from.count("the size of a dictionary"));
  std::vector<NamedAttr> attrs;
  for (uint64_t i = 0; i < n; ++i) {
    const std::string_view name = TRY(read_string_attr(from));
    attrs.push_back({name, TRY(attr(from))});
  }
  return make_dictionary(module_, std::move(attrs));
}

Result<AttrId> AttrReader::read_number(Bytes& from, bool floating) {
  const TypeId id = TRY(type(from));
  const Type& type = module_.type(id);
  if (type.kind != TypeKind::scalar || is_floating(type.scalar) != floating)
    return from.error(cat("expected ", floating ? "a floating" : "an integer", " type"));
  const Scalar scalar = type.scalar;
  const uint64_t bits = TRY(read_bits(row(scalar).bits, from));
  return floating ? make_float(module_, scalar, bits) : make_integer(module_, scalar, int64_t(bits));
}

Result<std::vector<AttrId>> AttrReader::read_attrs(Bytes& from) {
  const uint64_t n = TRY(from.count("the length of a list"));
  std::vector<AttrId> out;
  for (uint64_t i = 0; i < n; ++i) out.push_back(TRY(attr(from)));
  return out;
}

Result<std::vector<int64_t>> AttrReader::read_integers(Bytes& from) {
  const uint64_t n = TRY(from.count("the length of a list"));
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < n; ++i) out.push_back(TRY(from.signed_varint("an integer")));
  return out;
}

Result<uint64_t> AttrReader::read_bits(int width, Bytes& from) {
  if (width <= 8) return uint64_t(TRY(from.byte("a number")));
  return uint64_t(TRY(from.signed_varint("a number")));
}

Result<std::string_view> AttrReader::read_string(Bytes& from) {
  return container_.strings[TRY(from.below(container_.strings.size(), "a string's number"))];
}

Result<std::string_view> AttrReader::read_string_attr(Bytes& from) {
  const Attr& name = module_.attr(TRY(attr(from)));
  if (name.kind != AttrKind::string) return from.error("a name that is not a string");
  return name.text;
}

}  // namespace trine::front::stablehlo
