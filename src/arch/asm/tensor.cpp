// Tensor and constant lines; see tensor.h.
#include "arch/asm/tensor.h"

#include <algorithm>

#include "arch/asm/operand.h"
#include "base/text.h"

namespace trine::arch {

// NAME SPACE DTYPE[dims]
Result<Tensor> TensorReader::tensor_head(Cursor& c) {
  Tensor t;
  const size_t at = c.position();
  t.name = TRY(c.text("the tensor's name"));
  if (b_.find_tensor(t.name) >= 0)
    return c.error_at(at, Code::invalid, cat("a tensor named `", t.name, "` is already there"));
  const size_t space_at = c.position();
  const auto word = c.word();
  const auto spaces = enum_by_name("space")->members;
  const auto it = std::find(spaces.begin(), spaces.end(), word);
  if (it == spaces.end())
    return c.error_at(space_at, Code::not_found, cat("found `", word, "`, expected a memory: hbm, sbuf or psum"));
  t.space = static_cast<Space>(it - spaces.begin());
  t.dtype = TRY(parse_dtype(c));
  TRY(tensor_shape(c, t));
  return t;
}

Result<void> TensorReader::tensor_shape(Cursor& c, Tensor& t) {
  const size_t at = c.position();
  TRY(c.expect("[", "and the shape"));
  while (!c.take("]")) {
    if (!t.shape.empty()) TRY(c.expect(",", "or `]`"));
    t.shape.push_back(TRY(c.integer("a dimension")));
  }
  if (!size_fits(t))
    return c.error_at(at, Code::out_of_range, "the shape has a negative dimension or more than 2^46 bytes");
  if (t.space != Space::hbm && t.shape.empty())
    return c.error_at(at, Code::invalid, "found no dimension, expected [partitions, …] for a tensor on chip");
  return {};
}

// at [core.]partition:byte on chip, at byte in HBM; without it where its alias is, or after the last of that memory.
Result<void> TensorReader::read_address(Cursor& c, Tensor& t, const Tensor* alias) {
  if (c.peek_word() != "at") {
    t.address = alias ? alias->address : b_.allocator.next(t.space, t.core);
    if (alias) t.core = alias->core, t.partition = alias->partition;
    return {};
  }
  c.word();
  const size_t at = c.position();
  int64_t first = TRY(c.integer("an address"));
  if (t.space == Space::hbm) {
    t.address = first;
    return {};
  }
  if (c.take(".")) {
    if (first < 0 || first > 255)
      return c.error_at(at, Code::out_of_range, cat("found core ", first, ", expected 0 to 255"));
    t.core = static_cast<uint8_t>(first);
    first = TRY(c.integer("a partition"));
  }
  TRY(c.expect(":", "between partition and byte"));
  t.address = TRY(c.integer("a byte offset"));
  if (first < 0 || first > 255)
    return c.error_at(at, Code::out_of_range, cat("found partition ", first, ", expected 0 to 255"));
  t.partition = static_cast<int32_t>(first);
  return {};
}

Result<void> TensorReader::tensor_line(Cursor& c) {
  Tensor t = TRY(tensor_head(c));
  const auto word = c.peek_word();
  if (word == "input" || word == "output") {
    c.word();
    t.kind = word == "input" ? TensorKind::input : TensorKind::output;
  }
  const Tensor* alias = nullptr;
  if (c.peek_word() == "alias") {
    c.word();
    const size_t position = c.position();
    std::string name = TRY(c.text("the aliased input's name"));
    if (const int input = b_.find_tensor(name); input >= 0) alias = &b_.program().tensors[static_cast<size_t>(input)];
    aliases_.push_back({static_cast<uint32_t>(b_.program().tensors.size()), std::move(name), c, position});
  }
  TRY(read_address(c, t, alias));
  if (!c.at_end()) return c.found_instead("`input`, `output`, `alias`, `at` or the end of the line");
  b_.add_tensor(std::move(t));
  return {};
}

Result<void> TensorReader::const_line(Cursor& c) {
  Tensor t = TRY(tensor_head(c));
  TRY(read_address(c, t));
  std::vector<std::byte> bytes;
  if (!c.at_end()) bytes = TRY(constant_bytes(c, t));
  b_.add_constant(std::move(t), bytes);
  return {};
}

// `= 0x…`, two digits a byte in memory order, or `fill` and a number.
Result<std::vector<std::byte>> TensorReader::constant_bytes(Cursor& c, const Tensor& t) {
  constexpr int64_t kFillMax = int64_t{1} << 28;  // bytes, all constants of the program together
  std::vector<std::byte> bytes;
  const size_t at = c.position();
  if (c.take("=")) {
    TRY(c.expect("0x", "and the bytes"));
    const auto digit = [](char h) { return h >= '0' && h <= '9' ? h - '0' : h >= 'a' && h <= 'f' ? h - 'a' + 10 : -1; };
    const auto rest = c.rest();
    size_t n = 0;
    while (n + 1 < rest.size() && digit(rest[n]) >= 0 && digit(rest[n + 1]) >= 0) {
      bytes.push_back(static_cast<std::byte>(digit(rest[n]) * 16 + digit(rest[n + 1])));
      n += 2;
    }
    c.go_to(c.position() + n);
    if (static_cast<int64_t>(bytes.size()) != tensor_bytes(t))
      return c.error_at(at, Code::invalid,
                        cat("found ", bytes.size(), " bytes, expected ", tensor_bytes(t), " for this shape"));
    return bytes;
  }
  if (c.word() != "fill") return c.error_at(at, Code::invalid, "expected `= 0x…`, `fill` or nothing");
  const double v = TRY(c.number("a number"));
  if (is_packed(t.dtype) || bits(t.dtype) % 8 ||
      tensor_bytes(t) + static_cast<int64_t>(b_.program().data.size()) > kFillMax)
    return c.error_at(at, Code::unsupported,
                      cat("fill takes whole-byte dtypes and 2^28 bytes in all, found ", row(t.dtype).name, " and ",
                          tensor_bytes(t), " bytes"));
  Rounding rounding;
  const uint64_t one = row(t.dtype).round(static_cast<float>(v), rounding);
  const size_t size = static_cast<size_t>(bits(t.dtype) / 8);
  bytes.resize(static_cast<size_t>(tensor_bytes(t)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(one >> (8 * (i % size)));
  return bytes;
}

Result<void> TensorReader::resolve_aliases() {
  for (const Alias& a : aliases_) {
    const int index = b_.find_tensor(a.name);
    if (index < 0) {
      const auto names = names_of(b_.program().tensors, [](const Tensor& t) { return t.name; });
      return a.at.error_at(a.position, Code::not_found,
                           cat("no tensor is named `", a.name, "`", did_you_mean(a.name, names)));
    }
    b_.program().tensors[a.tensor].alias = index;
  }
  return {};
}

}  // namespace trine::arch
