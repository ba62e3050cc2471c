// Types and attributes as MLIR writes them; records by their rows are in record.cpp.
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "front/stablehlo/print/printer.h"

namespace trine::front::stablehlo {

namespace {

constexpr size_t kListedMax = 100;  // elements of a constant; more are bytes in hexadecimal, as MLIR prints them

bool is_bare(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '$') return false;
  }
  return name[0] != '.' && name[0] != '$';
}

void append_hex(std::string& out, uint64_t bits, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789ABCDEF"[bits >> (4 * i) & 15];
}

}  // namespace

void Printer::quoted(std::string_view text) {
  out_ += '"';
  for (char c : text) {
    if (c == '"' || c == '\\' || uint8_t(c) < 0x20 || uint8_t(c) >= 0x7f) {
      out_ += '\\';
      append_hex(out_, uint8_t(c), 2);
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

void Printer::name(std::string_view name) {
  if (is_bare(name)) {
    out_ += name;
  } else {
    quoted(name);
  }
}

void Printer::symbol(std::string_view text) {
  out_ += '@';
  name(text);
}

void Printer::types(const std::vector<TypeId>& ids, bool brackets_for_one) {
  const bool brackets = ids.size() != 1 || brackets_for_one || module_.type(ids[0]).kind == TypeKind::function;
  if (brackets) out_ += '(';
  list(ids, [&](TypeId t) { type(t); });
  if (brackets) out_ += ')';
}

void Printer::shape(const Type& t) {
  for (int64_t d : t.shape) out_ += d == kDynamic ? "?x" : cat(d, "x");
  type(t.element);
}

// Kinds with a closing `>` break, the others return.
void Printer::type(TypeId id) {
  if (full()) return;
  const Type& t = module_.type(id);
  switch (t.kind) {
    case TypeKind::scalar:
      out_ += row(t.scalar).name;
      return;
    case TypeKind::complex:
      out_ += "complex<";
      type(t.element);
      break;
    case TypeKind::tensor:
      out_ += "tensor<";
      shape(t);
      if (t.encoding != AttrId::none) {
        out_ += ", ";
        attr(t.encoding);
      }
      break;
    case TypeKind::unranked_tensor:
      out_ += "tensor<*x";
      type(t.element);
      break;
    case TypeKind::buffer:
      out_ += "memref<";
      shape(t);
      break;
    case TypeKind::tuple:
    case TypeKind::future:
      out_ += t.kind == TypeKind::tuple ? "tuple<" : "!stablehlo.future<";
      list(t.inputs, [&](TypeId e) { type(e); });
      break;
    case TypeKind::token:
      out_ += "!stablehlo.token";
      return;
    case TypeKind::function:
      types(t.inputs, true);
      out_ += " -> ";
      types(t.results, false);
      return;
    case TypeKind::quantized:
      quantized(*t.quantization);
      break;
    case TypeKind::none:
      out_ += "none";
      return;
    case TypeKind::witness:
      out_ += "!shape.witness";
      return;
    case TypeKind::opaque:
      out_ += t.text;
      return;
  }
  out_ += '>';
}

void Printer::quantized(const Quantization& q) {
  const std::string_view storage = row(module_.type(q.storage).scalar).name;  // i8, written u8 where unsigned
  out_ += cat("!quant.uniform<", q.flags != 0 ? storage : cat("u", storage.substr(1)));
  out_ += cat("<", q.min, ":", q.max, ">:");
  type(q.expressed);
  if (q.axis >= 0) out_ += cat(":", q.axis);
  out_ += q.axis >= 0 ? ", {" : ", ";
  for (size_t i = 0; i < q.scales.size(); ++i) {
    if (i > 0) out_ += ", ";
    number(Scalar::f64, float_bits(Scalar::f64, q.scales[i]));
    out_ += cat(":", q.zero_points[i]);
  }
  if (q.axis >= 0) out_ += '}';
}

// Six digits where they give the value back, else as many as it takes; what is not finite as its bits.
void Printer::number(Scalar scalar, uint64_t bits) {
  const ScalarRow& r = row(scalar);
  if (r.kind == ScalarKind::boolean) {
    out_ += bits != 0 ? "true" : "false";
  } else if (r.kind == ScalarKind::unsigned_integer) {
    out_ += cat(bits);
  } else if (r.kind == ScalarKind::signed_integer) {
    out_ += cat(int64_t(bits << (64 - r.bits)) >> (64 - r.bits));
  } else if (const double v = float_value(scalar, bits); !std::isfinite(v)) {
    out_ += "0x";
    append_hex(out_, bits, (r.bits + 3) / 4);
  } else {
    char buffer[48];
    char* end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific, 6).ptr;
    double back = 0;
    std::from_chars(buffer, end, back);
    if (float_bits(scalar, back) != bits)
      end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
    std::string text(buffer, end);
    if (text.find('.') == std::string::npos) text.insert(text.find('e'), ".0");
    out_ += text;
  }
}

void Printer::element(TypeId id, std::string_view bytes) {
  const Type& t = module_.type(id);
  if (t.kind == TypeKind::complex) {
    const size_t half = bytes.size() / 2;
    out_ += '(';
    element(t.element, bytes.substr(0, half));
    out_ += ',';
    element(t.element, bytes.substr(half));
    out_ += ')';
    return;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  number(t.scalar, bits);
}

void Printer::dense(const Attr& a) {
  const Type& tensor = module_.type(a.type);
  const auto width = size_t(module_.element_bytes(tensor.element));
  const Type& scalar = module_.type(tensor.element);
  const bool boolean = scalar.kind == TypeKind::scalar && scalar.scalar == Scalar::i1;
  out_ += "dense<";
  if (a.text.size() == width) {
    element(tensor.element, a.text);
  } else if (a.text.size() > width * kListedMax && !boolean) {
    out_ += "\"0x";
    for (char c : a.text) append_hex(out_, uint8_t(c), 2);
    out_ += '"';
  } else if (!a.text.empty()) {
    size_t at = 0;
    dense_list(a, tensor, 0, at);
  }
  out_ += "> : ";
  type(a.type);
}

void Printer::dense_list(const Attr& a, const Type& tensor, size_t dimension, size_t& at) {
  if (full()) return;
  if (dimension == tensor.shape.size()) {
    const auto width = size_t(module_.element_bytes(tensor.element));
    element(tensor.element, a.text.substr(at, width));
    at += width;
    return;
  }
  out_ += '[';
  for (int64_t i = 0; i < tensor.shape[dimension] && !full(); ++i) {
    if (i > 0) out_ += ", ";
    dense_list(a, tensor, dimension + 1, at);
  }
  out_ += ']';
}

void Printer::packed(const Attr& a) {
  const auto width = size_t(module_.element_bytes(a.type));
  out_ += "array<";
  type(a.type);
  for (size_t at = 0; at < a.text.size() && !full(); at += width) {
    out_ += at == 0 ? ": " : ", ";
    element(a.type, a.text.substr(at, width));
  }
  out_ += '>';
}

void Printer::dictionary(const std::vector<NamedAttr>& attrs) {
  out_ += '{';
  list(attrs, [&](const NamedAttr& a) {
    name(a.name);
    if (module_.attr(a.value).kind == AttrKind::unit) return;
    out_ += " = ";
    attr(a.value);
  });
  out_ += '}';
}

void Printer::symbol_attr(const Attr& a) {
  symbol(a.text);
  for (AttrId nested : a.elements) {
    out_ += "::";
    symbol(module_.attr(nested).text);
  }
}

void Printer::attr(AttrId id) {
  if (full()) return;
  const Attr& a = module_.attr(id);
  switch (a.kind) {
    case AttrKind::unit:
      out_ += "unit";
      return;
    case AttrKind::boolean:
      number(Scalar::i1, a.bits);
      return;
    case AttrKind::integer:
    case AttrKind::floating:
      number(module_.type(a.type).scalar, a.bits);
      out_ += " : ";
      type(a.type);
      return;
    case AttrKind::string:
      quoted(a.text);
      return;
    case AttrKind::symbol:
      symbol_attr(a);
      return;
    case AttrKind::type:
      type(a.type);
      return;
    case AttrKind::array:
      out_ += '[';
      list(a.elements, [&](AttrId e) { attr(e); });
      out_ += ']';
      return;
    case AttrKind::dictionary: {
      std::vector<NamedAttr> attrs;
      for (size_t i = 0; i < a.keys.size(); ++i) attrs.push_back({a.keys[i], a.elements[i]});
      dictionary(attrs);
      return;
    }
    case AttrKind::dense:
      dense(a);
      return;
    case AttrKind::packed:
      packed(a);
      return;
    case AttrKind::enumeration:
      enumeration(a);
      return;
    case AttrKind::record:
      record(a);
      return;
    case AttrKind::opaque:
      out_ += a.text;
      return;
  }
}

}  // namespace trine::front::stablehlo
