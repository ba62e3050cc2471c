// Numbers in text, and dense<...>: nested lists, one number for all, or the bytes in hexadecimal.
#include <charconv>

#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/dense.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

// The bits of a number of this type: decimal, or hexadecimal, which for a float spells its bits.
Result<uint64_t> TextParser::number_bits(Scalar scalar) {
  const ScalarRow& r = row(scalar);
  const size_t begin = cursor_.at();
  if (r.kind == ScalarKind::boolean) {
    if (cursor_.accept_word("true")) return uint64_t{1};
    if (cursor_.accept_word("false")) return uint64_t{0};
  }
  const std::string_view text = cursor_.number();
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  const bool hex = digits.starts_with("0x");
  if (text.empty()) return cursor_.expected("a number");
  if (!hex && is_floating(scalar)) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size() || (code != std::errc{} && code != std::errc::result_out_of_range))
      return cursor_.error_at(begin, "expected a floating number");
    if (code == std::errc::result_out_of_range) return cursor_.error_at(begin, "a number too large or small for f64");
    return float_bits(scalar, value);
  }
  uint64_t value = 0;
  if (hex) digits.remove_prefix(2);
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const uint64_t all = r.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << r.bits) - 1;
  const uint64_t limit = negative ? uint64_t{1} << (r.bits - 1) : all;
  if (end != digits.data() + digits.size() || code != std::errc{} || value > limit || (hex && negative))
    return cursor_.error_at(begin, cat("expected a number of type ", r.name));
  return negative ? (0 - value) & all : value;
}

Result<void> TextParser::dense_element(TypeId element, std::string& bytes) {
  const Type& type = module_.type(element);
  if (type.kind == TypeKind::complex) {
    TRY(cursor_.expect("("));
    TRY(dense_element(type.element, bytes));
    TRY(cursor_.expect(","));
    TRY(dense_element(type.element, bytes));
    return cursor_.expect(")");
  }
  if (type.kind != TypeKind::scalar) return cursor_.error("a constant of other than numbers");
  const uint64_t bits = TRY(number_bits(type.scalar));
  bytes.append(reinterpret_cast<const char*>(&bits), size_t(stablehlo::bytes(type.scalar)));
  return {};
}

Result<void> TextParser::dense_elements(const Type& tensor, size_t dimension, std::string& bytes) {
  if (dimension == tensor.shape.size()) return dense_element(tensor.element, bytes);
  TRY(cursor_.expect("["));
  int64_t n = 0;
  if (!cursor_.sees("]")) {
    do {
      TRY(dense_elements(tensor, dimension + 1, bytes));
      ++n;
    } while (cursor_.accept(","));
  }
  if (n != tensor.shape[dimension])
    return cursor_.error(cat("a list of ", n, " where dimension ", dimension, " has ", tensor.shape[dimension]));
  return cursor_.expect("]");
}

// After "dense". The type follows the elements, so it is read first.
Result<AttrId> TextParser::dense_attr() {
  cursor_.peek();
  const size_t begin = cursor_.at();
  TRY(cursor_.balanced());
  TRY(cursor_.expect(":"));
  const TypeId id = TRY(type());
  const size_t end = cursor_.at();
  const Type tensor = module_.type(id);
  if (tensor.kind != TypeKind::tensor) return cursor_.error("a dense constant's type is a tensor");
  if (tensor.shape.size() > size_t(kDepthMax)) return cursor_.error("a constant of too many dimensions");
  cursor_.go(begin);
  TRY(cursor_.expect("<"));
  if (cursor_.sees("\"")) {
    const AttrId dense = TRY(dense_hex(id, begin));
    cursor_.go(end);
    return dense;
  }
  std::string bytes;
  if (cursor_.sees("[")) {
    TRY(dense_elements(tensor, 0, bytes));
  } else if (!cursor_.sees(">")) {
    TRY(dense_element(tensor.element, bytes));
  }
  TRY(cursor_.expect(">"));
  cursor_.go(end);
  return with_position(make_dense(module_, id, module_.keep(std::move(bytes))), begin);
}

Result<AttrId> TextParser::dense_hex(TypeId tensor, size_t at) {
  const std::string text = TRY(cursor_.quoted());
  TRY(cursor_.expect(">"));
  std::string bytes;
  bytes.reserve(text.size() / 2);
  bool good = text.starts_with("0x") && text.size() % 2 == 0;
  for (size_t i = 2; good && i < text.size(); i += 2) {
    unsigned value = 0;
    const auto [end, code] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    good = code == std::errc{} && end == text.data() + i + 2;
    bytes += char(value);
  }
  if (!good) return cursor_.error_at(at, "expected bytes as \"0x...\"");
  return with_position(make_dense_from_blob(module_, tensor, module_.keep(std::move(bytes))), at);
}

}  // namespace trine::front::stablehlo
