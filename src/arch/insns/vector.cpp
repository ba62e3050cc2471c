// Joins the vector engine's tables and holds the rules its operators share. The rows stand in vector_*.cpp.
#include "arch/insns/vector.h"

#include <cmath>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/insns/lanes.h"
#include "base/text.h"

namespace trine::arch {

std::span<const Row> vector_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (auto part : {vector_elementwise_rows(), vector_arith_rows(), vector_reduce_rows(), vector_search_rows(),
                      vector_random_rows()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

// Which engines and chips have an operator.
Result<void> operator_check(const Chip& k, const Call& i, std::string_view attr) {
  const Alu op = i.as<Alu>(attr);
  const auto wrong = [&](std::string_view why) { return fail(Code::invalid, cat(attr, "=", name(op), ": ", why)); };
  if (op == Alu::average) return wrong("only tensor_partition_reduce averages; use add and multiply");
  if (op == Alu::abs_max || op == Alu::abs_min || op == Alu::square || op == Alu::relu)
    TRY(chip_has(k, i, Feature::abs_ops, cat(attr, "=", name(op))));
  if (i.engine == Engine::vector && (op == Alu::power || op == Alu::rsqrt))
    return wrong("the Vector engine has it not; run the instruction on gpsimd");
  if (i.engine != Engine::vector && is_bitvec(op)) return wrong("bitwise operators are Vector's; run it on vector");
  return {};
}

// Bitvec operators see patterns of bits, so nothing is cast: integers of one width.
Result<void> bits_check(const Call& i, std::initializer_list<std::string_view> slots) {
  const Dtype first = i.tile("dst").dtype;
  for (const auto slot : slots) {
    if (!i.has(slot) || !i.is_tile(slot)) continue;
    const Dtype d = i.tile(slot).dtype;
    if (!is_integer(d))
      return fail(Code::invalid,
                  cat(slot, " is ", row(d).name, "; bitwise operators take integers, so view it as one"));
    if (bits(d) != bits(first))
      return fail(Code::invalid, cat(slot, " is ", row(d).name, " and dst is ", row(first).name,
                                     "; bitwise operators cast nothing, so give both the same width"));
  }
  return {};
}

Result<void> operand_check(const Call& i, std::string_view op_attr, std::string_view slot, std::string_view like) {
  const Alu op = i.as<Alu>(op_attr);
  if (!alu_is_unary(op) && !i.has(slot))
    return fail(Code::invalid, cat(op_attr, "=", name(op), " needs ", slot, ", which is missing"));
  if (!i.has(slot)) return {};
  if (!i.is_tile(slot)) {
    const double v = i.operand(slot).immediate;
    if (!is_bitvec(op) || (v == std::trunc(v) && std::abs(v) < 0x1p32)) return {};
    return fail(Code::invalid, cat(slot, " is ", v, "; bitwise operators take whole numbers of at most 32 bits"));
  }
  TRY(one_per_lane(i, slot, like));
  const Dtype d = i.tile(slot).dtype;
  if (!is_bitvec(op) && d != Dtype::f32)
    return fail(Code::invalid, cat(slot, " is ", row(d).name, "; arithmetic operands are f32, so cast it first"));
  return {};
}

Result<void> arithmetic_check(const Chip& k, const Call& i, std::string_view attr) {
  TRY(operator_check(k, i, attr));
  const Alu op = i.as<Alu>(attr);
  if (!is_bitvec(op)) return {};
  return fail(Code::invalid, cat(attr, "=", name(op), " works on bits; ", i.info.row->name,
                                 " computes in f32, so use an arithmetic operator"));
}

Result<void> one_of(const Call& i, std::string_view attr, std::initializer_list<Alu> allowed) {
  const Alu op = i.as<Alu>(attr);
  std::string list;
  for (const Alu a : allowed) {
    if (a == op) return {};
    list += cat(list.empty() ? "" : ", ", name(a));
  }
  return fail(Code::invalid, cat(attr, "=", name(op), " is none that ", i.info.row->name, " has; use one of ", list));
}

}  // namespace trine::arch
