// Types in text: tensor<2x?xf32>, complex<f32>, (a, b) -> c, tuple<...>, !stablehlo.token, !quant.uniform<...>,
// aliases.
#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

Result<TypeId> TextParser::checked(Type type) {
  const size_t at = cursor_.at();
  TRY(with_position(check_type(module_, type), at));
  return with_position(module_.intern(std::move(type)), at);
}

Result<TypeId> TextParser::type() {
  if (depth_ >= kRecursionMax) return cursor_.error(cat("types nested more than ", kRecursionMax, " deep"));
  const Nesting nesting(depth_);
  return type_inside();
}

Result<TypeId> TextParser::type_inside() {
  const char next = cursor_.peek();
  if (next == '(') return function_type();
  if (next == '!') return dialect_type();
  const size_t begin = cursor_.at();
  const std::string_view word = cursor_.word();
  if (const auto scalar = scalar_by_name(word)) return make_scalar(module_, *scalar);
  if (word == "none") return checked(Type{});
  if (word == "tensor") return shaped_type(TypeKind::tensor);
  if (word == "memref") return shaped_type(TypeKind::buffer);
  if (word == "complex") {
    TRY(cursor_.expect("<"));
    Type type{.kind = TypeKind::complex, .element = TRY(this->type())};
    TRY(cursor_.expect(">"));
    return checked(std::move(type));
  }
  if (word == "tuple") {
    TRY(cursor_.expect("<"));
    Type type{.kind = TypeKind::tuple};
    if (!cursor_.sees(">")) type.inputs = TRY(type_list());
    TRY(cursor_.expect(">"));
    return checked(std::move(type));
  }
  cursor_.go(begin);
  return cursor_.expected("a type");
}

Result<std::vector<TypeId>> TextParser::type_list() {
  std::vector<TypeId> types;
  do {
    types.push_back(TRY(type()));
  } while (cursor_.accept(","));
  return types;
}

Result<std::vector<TypeId>> TextParser::types_or_one() {
  std::vector<TypeId> types;
  if (!cursor_.accept("(")) {
    types.push_back(TRY(type()));
    return types;
  }
  if (cursor_.accept(")")) return types;
  types = TRY(type_list());
  TRY(cursor_.expect(")"));
  return types;
}

Result<TypeId> TextParser::function_type() {
  Type type{.kind = TypeKind::function};
  TRY(cursor_.expect("("));
  if (!cursor_.sees(")")) type.inputs = TRY(type_list());
  TRY(cursor_.expect(")"));
  TRY(cursor_.expect("->"));
  type.results = TRY(types_or_one());
  return checked(std::move(type));
}

// After "tensor" or "memref". Dimensions and the x between them stand without space.
Result<TypeId> TextParser::shaped_type(TypeKind kind) {
  TRY(cursor_.expect("<"));
  Type type{.kind = kind};
  if (cursor_.accept("*x")) {
    type.kind = TypeKind::unranked_tensor;
  } else {
    for (char c = cursor_.peek(); c == '?' || (c >= '0' && c <= '9'); c = cursor_.peek()) {
      int64_t size = kDynamic;
      const size_t begin = cursor_.at();
      if (!cursor_.accept("?")) {
        size = 0;
        while (!cursor_.rest().empty() && cursor_.rest()[0] >= '0' && cursor_.rest()[0] <= '9') {
          if (size > (INT64_MAX - 9) / 10) return cursor_.error_at(begin, "a dimension of more than 63 bits");
          size = size * 10 + (cursor_.rest()[0] - '0');
          cursor_.go(cursor_.at() + 1);
        }
      }
      type.shape.push_back(size);
      TRY(cursor_.expect("x"));
    }
  }
  type.element = TRY(this->type());
  if (cursor_.accept(",")) {
    if (type.kind != TypeKind::tensor) return cursor_.error("only a ranked tensor has an encoding");
    type.encoding = TRY(attr());
  }
  TRY(cursor_.expect(">"));
  return checked(std::move(type));
}

// From '!': an alias, !stablehlo.token, !quant.uniform<...>, or another dialect's, kept as text.
Result<TypeId> TextParser::dialect_type() {
  const size_t begin = cursor_.at();
  TRY(cursor_.expect("!"));
  const std::string_view name = cursor_.suffix();
  if (name == "stablehlo.token") return checked(Type{.kind = TypeKind::token});
  if (name == "shape.witness") return checked(Type{.kind = TypeKind::witness});
  if (name == "stablehlo.future") {
    TRY(cursor_.expect("<"));
    Type type{.kind = TypeKind::future};
    if (!cursor_.sees(">")) type.inputs = TRY(type_list());
    TRY(cursor_.expect(">"));
    return checked(std::move(type));
  }
  if (name == "quant.uniform") return quantized_type();
  const auto alias = aliases_.find(cursor_.from(begin));
  if (alias != aliases_.end()) {
    Alias& found = alias->second;
    if (found.type != TypeId::none) return found.type;
    if (found.reading) return cursor_.error_at(begin, "an alias that contains itself");
    const size_t back = cursor_.at();
    cursor_.go(found.at);
    found.reading = true;
    const TypeId id = TRY(type());
    found = {.at = found.at, .type = id};
    cursor_.go(back);
    return id;
  }
  const bool body = cursor_.rest().starts_with("<");
  if (name.empty() || (!body && name.find('.') == std::string_view::npos))
    return cursor_.error_at(begin, cat("!", name, " is not defined"));
  if (body) TRY(cursor_.balanced());
  const std::string_view text = cursor_.from(begin);
  if (text.find('\n') != std::string_view::npos)
    return cursor_.error_at(begin, "a line break in a type that has no row");
  return checked(Type{.kind = TypeKind::opaque, .text = text});
}

// <i8<-128:127>:f32, 0.1:3> or <i8:f32:1, {0.1:3, 0.25}>; zero points of 0 may be left out, storage limits too.
Result<TypeId> TextParser::quantized_type() {
  TRY(cursor_.expect("<"));
  Quantization q{.flags = 1};
  const size_t begin = cursor_.at();
  const std::string_view word = cursor_.word();
  const bool is_unsigned = word.starts_with("u");
  const auto storage = scalar_by_name(is_unsigned ? cat("i", word.substr(1)) : std::string(word));
  if (!storage || row(*storage).kind != ScalarKind::signed_integer)
    return cursor_.error_at(begin, "expected the integer type a quantized type stores");
  q.flags = is_unsigned ? 0 : 1;
  q.storage = TRY(make_scalar(module_, *storage));
  const int bits = std::min(row(*storage).bits, 62);
  q.min = is_unsigned ? 0 : -(int64_t{1} << (bits - 1));
  q.max = (int64_t{1} << (bits - !is_unsigned)) - 1;
  if (cursor_.accept("<")) {
    q.min = TRY(cursor_.integer());
    TRY(cursor_.expect(":"));
    q.max = TRY(cursor_.integer());
    TRY(cursor_.expect(">"));
  }
  TRY(cursor_.expect(":"));
  q.expressed = TRY(type());
  if (cursor_.accept(":")) q.axis = TRY(cursor_.integer());
  TRY(cursor_.expect(","));
  const bool braces = cursor_.accept("{");
  do {
    q.scales.push_back(float_value(Scalar::f64, TRY(number_bits(Scalar::f64))));
    q.zero_points.push_back(cursor_.accept(":") ? TRY(cursor_.integer()) : 0);
  } while (braces && cursor_.accept(","));
  if (braces) TRY(cursor_.expect("}"));
  if (braces != (q.axis >= 0)) return cursor_.error("a quantized type has a dimension and a list, or neither");
  TRY(cursor_.expect(">"));
  return checked(Type{.kind = TypeKind::quantized, .quantization = std::move(q)});
}

}  // namespace trine::front::stablehlo
