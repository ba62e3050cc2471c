// Text of operands; see operand.h. The canonical text leaves out what a reader can infer: the tensor's own dtype,
// and the region when it is the whole tensor.
#include "arch/asm/operand.h"

#include <charconv>
#include <limits>

#include "base/text.h"

namespace trine::arch {

namespace {

Result<int> variable(Cursor& c, int limit, std::string_view what) {
  const size_t at = c.position();
  const auto word = c.word();
  int n = 0;
  const auto status = std::from_chars(word.data() + 1, word.data() + word.size(), n).ec;
  if (status != std::errc{} || n >= limit)
    return c.error_at(at, Code::out_of_range, cat("found `", word, "`, expected ", what));
  return n;
}

// factor · variable, in either order, or a number alone.
Result<void> affine_term(Cursor& c, int depth, bool minus, Affine& a) {
  int64_t factor = 1;
  const size_t at = c.position();
  bool has_number = false;
  if (!c.next_is_word()) {
    if (c.peek() == '-') return c.found_instead("a number, a loop index (i0…) or a register (r0…)");
    factor = TRY(c.integer("a number, a loop index (i0…) or a register (r0…)"));
    has_number = true;
    if (!c.take("*")) {
      const bool over = minus ? __builtin_sub_overflow(a.constant, factor, &a.constant)
                              : __builtin_add_overflow(a.constant, factor, &a.constant);
      if (over) return c.error_at(at, Code::out_of_range, "the sum does not fit in 64 bits");
      return {};
    }
  }
  const size_t name_at = c.position();
  const auto name = c.peek_word();
  const bool loop = is_register_name(name, 'i'), reg = is_register_name(name, 'r');
  if (!loop && !reg) return c.found_instead("a loop index (i0…) or a register (r0…)");
  const std::string what = loop ? (depth ? cat("a loop index below i", depth, ": ", depth, " loops are open here")
                                         : std::string("no loop index: no loop is open here"))
                                : cat("a register below r", kRegisterCount);
  const int n = TRY(variable(c, loop ? depth : kRegisterCount, what));
  if (!has_number && c.take("*")) factor = TRY(c.integer("a factor"));
  if (minus && __builtin_sub_overflow(int64_t{0}, factor, &factor))
    return c.error_at(at, Code::out_of_range, "the factor does not fit in 64 bits");
  if (loop) {
    int64_t& step = a.steps[static_cast<size_t>(n)];
    if (__builtin_add_overflow(step, factor, &step))
      return c.error_at(at, Code::out_of_range, "the factor does not fit in 64 bits");
    return {};
  }
  if (a.reg >= 0)
    return c.error_at(name_at, Code::unsupported, "found a second register, expected one at most in an address");
  a.reg = n;
  a.scale = factor;
  return {};
}

Result<void> parse_dims(Cursor& c, const Tensor& t, Pattern& p) {
  bool rows = t.space == Space::hbm;  // in HBM the first dim is the rows
  while (c.next_is_number()) {
    const size_t at = c.position();
    const int64_t count = TRY(c.integer("a count"));
    TRY(c.expect("@", "between count and stride"));
    const int64_t stride = TRY(c.integer("a stride in elements"));
    const int64_t limit = rows ? std::numeric_limits<uint16_t>::max() : std::numeric_limits<uint32_t>::max();
    if (count < 1 || count > limit)
      return c.error_at(at, Code::out_of_range, cat("found a count of ", count, ", expected 1 to ", limit));
    if (rows) {
      p.partitions = static_cast<uint16_t>(count);
      p.partition_stride = stride;
      rows = false;
      continue;
    }
    if (p.rank == kFreeDimsMax)
      return c.error_at(at, Code::out_of_range,
                        cat("found a fifth free dimension, expected at most ", kFreeDimsMax, " in an access pattern"));
    p.dims[p.rank++] = {stride, static_cast<uint32_t>(count)};
  }
  return {};
}

Result<Operand> parse_tile(Cursor& c, Builder& b, int depth, bool is_index);

Result<uint32_t> parse_index(Cursor& c, Builder& b, int depth, DynamicKind kind) {
  const Operand index = TRY(parse_tile(c, b, depth, true));
  const int64_t scale = c.take("*") ? TRY(c.integer("a scale in elements")) : 1;
  return b.dynamic(kind, index, scale);
}

struct Region {
  Pattern pattern;
  int64_t offset = 0;
  int partition = 0;
  uint32_t dynamic = 0;
};

// After the `[`: [start:partitions,] offset [, dims] [, rows|free index*scale] `]`.
Result<Region> parse_region(Cursor& c, Builder& b, int depth, bool is_index, const Tensor& t, Dtype dtype) {
  Region r;
  r.pattern.dtype = dtype;
  if (t.space != Space::hbm) {
    const size_t at = c.position();
    const int64_t start = TRY(c.integer("the first partition"));
    TRY(c.expect(":", "and the number of partitions"));
    const int64_t count = TRY(c.integer("the number of partitions"));
    if (start < 0 || start > 255 || count < 1 || count > 256)
      return c.error_at(
          at, Code::out_of_range,
          cat("found partitions ", start, ":", count, ", expected a start of 0 to 255 and a count of 1 to 256"));
    r.partition = static_cast<int>(start);
    r.pattern.partitions = static_cast<uint16_t>(count);
    TRY(c.expect(",", "and the offset"));
  }
  const size_t at = c.position();
  const Affine a = TRY(parse_affine(c, depth));
  r.offset = a.constant;
  r.pattern.step = a.steps;
  if (a.reg >= 0)
    r.dynamic = b.dynamic({.kind = DynamicKind::reg, .reg = static_cast<uint8_t>(a.reg), .scale = a.scale});
  while (c.take(",")) {
    const auto word = c.peek_word();
    if (word.empty()) {
      TRY(parse_dims(c, t, r.pattern));
      continue;
    }
    if (word != "rows" && word != "free") return c.found_instead("dimensions, `rows` or `free`");
    if (is_index) return c.error_at(at, Code::unsupported, "an index tile cannot itself be gathered");
    if (r.dynamic)
      return c.error_at(at, Code::unsupported, "found a second dynamic part, expected a register or one index tile");
    c.word();
    r.dynamic = TRY(parse_index(c, b, depth, word == "rows" ? DynamicKind::rows : DynamicKind::free));
  }
  TRY(c.expect("]", "after the region"));
  return r;
}

Result<Operand> parse_tile(Cursor& c, Builder& b, int depth, bool is_index) {
  const size_t at = c.position();
  const std::string name = TRY(c.text("a tensor"));
  const int index = b.find_tensor(name);
  if (index < 0) {
    std::vector<std::string> names;
    for (const Tensor& t : b.program().tensors) names.push_back(t.name);
    return c.error_at(at, Code::not_found, cat("no tensor is named `", name, "`", did_you_mean(name, names)));
  }
  const Tensor& t = b.program().tensors[static_cast<size_t>(index)];
  const Dtype dtype = c.take(":") ? TRY(parse_dtype(c)) : t.dtype;
  if (!c.take("[")) {
    const auto whole = whole_pattern(t, dtype);
    if (!whole)
      return c.error_at(at, Code::invalid,
                        cat("`", name, "` has a shape that one pattern cannot walk whole; write the region in [ ]"));
    return b.tile(static_cast<uint32_t>(index), *whole);
  }
  const Region r = TRY(parse_region(c, b, depth, is_index, t, dtype));
  return b.tile(static_cast<uint32_t>(index), r.pattern, r.offset, r.partition, r.dynamic);
}

}  // namespace

Result<Affine> parse_affine(Cursor& c, int depth) {
  Affine a;
  bool minus = c.take("-");
  for (;;) {
    TRY(affine_term(c, depth, minus, a));
    minus = c.take("-");
    if (!minus && !c.take("+")) return a;
  }
}

void append_affine(std::string& out, const Affine& a) {
  const size_t begin = out.size();
  const auto term = [&](int64_t factor, std::string_view name) {
    if (factor >= 0 && out.size() > begin) out += '+';
    if (factor == -1) out += '-';
    if (factor != 1 && factor != -1) append_text(out, cat(factor, "*"));
    out += name;
  };
  if (a.constant) append_text(out, a.constant);
  for (size_t d = 0; d < a.steps.size(); ++d)
    if (a.steps[d]) term(a.steps[d], cat("i", d));
  if (a.reg >= 0) term(a.scale, cat("r", a.reg));
  if (out.size() == begin) out += '0';
}

Result<Dtype> parse_dtype(Cursor& c) {
  const size_t at = c.position();
  const auto word = c.word();
  if (word.empty()) return c.found_instead("a dtype");
  for (const DtypeRow& row : kChipDtypes)
    if (row.name == word) return row.dtype;
  std::vector<std::string> names;
  for (const DtypeRow& row : kChipDtypes) names.emplace_back(row.name);
  return c.error_at(at, Code::not_found, cat("no dtype is named `", word, "`", did_you_mean(word, names)));
}

Result<Operand> parse_operand(Cursor& c, Builder& b, int depth) {
  if (c.next_is_number()) return immediate_operand(TRY(c.number("a number")));
  const auto word = c.peek_word();
  if (is_register_name(word, 'r'))
    return register_operand(TRY(variable(c, kRegisterCount, cat("a register below r", kRegisterCount))));
  if (word.empty() && c.peek() != '"') return c.found_instead("a tensor, a number or a register");
  return parse_tile(c, b, depth, false);
}

static void append_tile(std::string& out, const Program& p, const Operand& o) {
  const Tensor& t = p.tensors[o.tensor];
  const Pattern& pattern = p.patterns[o.pattern];
  append_name(out, t.name);
  if (pattern.dtype != t.dtype) append_text(out, cat(":", row(pattern.dtype).name));
  if (!o.offset && !o.partition && !o.dynamic && whole_pattern(t, pattern.dtype) == pattern) return;

  Affine a{.constant = o.offset, .steps = pattern.step};
  const Dynamic* dynamic = o.dynamic ? &p.dynamics[o.dynamic - 1] : nullptr;
  if (dynamic && dynamic->kind == DynamicKind::reg) {
    a.reg = dynamic->reg;
    a.scale = dynamic->scale;
    dynamic = nullptr;
  }
  out += '[';
  if (t.space != Space::hbm) append_text(out, cat(o.partition, ":", pattern.partitions, ", "));
  append_affine(out, a);
  std::string dims;
  if (t.space == Space::hbm && (pattern.partitions != 1 || pattern.partition_stride || pattern.rank))
    dims = cat(" ", pattern.partitions, "@", pattern.partition_stride);
  for (size_t i = 0; i < pattern.rank; ++i)
    append_text(dims, cat(" ", pattern.dims[i].count, "@", pattern.dims[i].stride));
  if (!dims.empty()) append_text(out, cat(",", dims));
  if (dynamic) {
    append_text(out, dynamic->kind == DynamicKind::rows ? ", rows " : ", free ");
    append_operand(out, p, p.operands[dynamic->index]);
    append_text(out, cat("*", dynamic->scale));
  }
  out += ']';
}

void append_operand(std::string& out, const Program& p, const Operand& o) {
  switch (o.kind) {
    case OperandKind::none:
      out += "none";
      return;
    case OperandKind::immediate:
      append_text(out, o.immediate != o.immediate ? std::string("nan") : shortest(o.immediate));
      return;
    case OperandKind::reg:
      append_text(out, cat("r", o.reg));
      return;
    case OperandKind::tile:
      append_tile(out, p, o);
  }
}

std::string describe(const Program& p, const Operand& o) {
  std::string out;
  append_operand(out, p, o);
  return out;
}

}  // namespace trine::arch
