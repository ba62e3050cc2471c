// The vector engine's rows come from several files, by kind; vector.cpp joins them into one table and has the rules
// about operators that they share.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "arch/insns/alu.h"
#include "arch/row.h"

namespace trine::arch {

std::span<const Row> vector_elementwise_rows();
std::span<const Row> vector_arith_rows();
std::span<const Row> vector_reduce_rows();
std::span<const Row> vector_search_rows();
std::span<const Row> vector_random_rows();

Result<void> operator_check(const Chip& k, const Call& i, std::string_view attr);
Result<void> arithmetic_check(const Chip& k, const Call& i, std::string_view attr);  // and it is not bitvec
Result<void> bits_check(const Call& i, std::initializer_list<std::string_view> slots);
// The operand of a tensor-scalar operator: there when it takes one, one value per lane of `data`, f32.
Result<void> operand_check(const Call& i, std::string_view op_attr, std::string_view slot,
                           std::string_view like = "data");
Result<void> one_of(const Call& i, std::string_view attr, std::initializer_list<Alu> allowed);

// out = a op s, or s op a when reversed.
template <class T>
void apply(const AluRow<T>& op, bool reverse, const T* a, T s, T* out, int64_t n) {
  (reverse ? op.reversed : op.scalar)(a, s, out, n);
}

}  // namespace trine::arch
