// Products of matrices: MatMul, Gemm, Einsum, determinants.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/matmul.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

Made matmul(Build& b, Value lhs, Value rhs, Dtype result) {
  const auto wrong = [&] {
    return fail(Code::invalid, cat("cannot multiply ", ir::text(lhs.type()), " by ", ir::text(rhs.type())));
  };
  if (rank(lhs) == 0 || rank(rhs) == 0 || dtype(lhs) != dtype(rhs)) return wrong();
  const int64_t depth = dims(lhs).back(), depth_at = std::max(rank(rhs) - 2, 0);
  if (dims(rhs)[size_t(depth_at)] != depth) return wrong();
  if (rank(rhs) <= 2) return b.dot(lhs, rhs, {}, {}, {rank(lhs) - 1}, {depth_at}, result);
  const Dims rhs_batch(dims(rhs).begin(), dims(rhs).end() - 2);
  // [depth] x [batch, depth, n]: batch and n are all free.
  if (rank(lhs) == 1) return b.dot(lhs, rhs, {}, {}, {0}, {depth_at}, result);
  const Dims lhs_batch(dims(lhs).begin(), dims(lhs).end() - 2);
  const Dims batch = TRY(b.broadcast_dims(lhs_batch, rhs_batch));
  const auto widen = [&](Value v) -> Made {
    Dims to = batch;
    to.insert(to.end(), dims(v).end() - 2, dims(v).end());
    return b.broadcast(v, to);
  };
  const auto n = int64_t(batch.size());
  return b.dot(TRY(widen(lhs)), TRY(widen(rhs)), count_up(0, n), count_up(0, n), {n + 1}, {n}, result);
}

namespace {

Lowered mat_mul(Call& c) { return one(matmul(c.b, c.in[0], c.in[1], dtype(c.in[0]))); }

Made scaled(Build& b, Value x, double by) { return by == 1 ? Made(x) : b.with_number(op::multiply, x, by); }

Lowered gemm(Call& c) {
  if (rank(c.in[0]) != 2 || rank(c.in[1]) != 2 || dtype(c.in[0]) != dtype(c.in[1]))
    return fail(Code::invalid,
                cat("found ", ir::text(c.in[0].type()), " and ", ir::text(c.in[1].type()), "; expected two matrices"));
  const int64_t a = c.integer("transA", 0) != 0 ? 0 : 1, d = c.integer("transB", 0) != 0 ? 1 : 0;
  const Value product = TRY(c.b.dot(c.in[0], c.in[1], {}, {}, {a}, {d}, dtype(c.in[0])));
  const Value left = TRY(scaled(c.b, product, c.real("alpha", 1)));
  const double beta = c.real("beta", 1);
  if (!c.has(2) || beta == 0) return Values{left};
  return one(c.b.binary(op::add, left, TRY(c.b.broadcast(TRY(scaled(c.b, c.in[2], beta)), dims(left)))));
}

// An operand of an einsum: each dim has a letter; those of the ellipsis are made up from 1 on.
struct Term {
  Value value = {};
  std::string letters = {};

  int at(char letter) const {
    const size_t i = letters.find(letter);
    return i == std::string::npos ? -1 : int(i);
  }
};

// "ab...c" with the ellipsis as letters \1 to \n, lined up at the end.
Result<std::string> spell(std::string_view term, int rank) {
  const size_t dots = term.find("...");
  std::string out;
  if (dots == std::string_view::npos) {
    out = term;
  } else {
    const int hidden = rank - int(term.size() - 3);
    if (hidden < 0 || hidden > 64) return fail(Code::invalid, cat("term `", term, "` for ", rank, " dims"));
    out = term.substr(0, dots);
    for (int i = hidden; i > 0; --i) out += char(i);
    append_text(out, term.substr(dots + 3));
  }
  for (char letter : out)
    if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
          (letter > 0 && letter <= 64 && dots != std::string_view::npos)))
      return fail(Code::invalid, cat("term `", term, "` has more than letters"));
  return out;
}

// A letter named twice keeps the diagonal: all else is made zero and summed.
Result<Term> diagonals(Build& b, Term t) {
  for (size_t i = 0; i < t.letters.size(); ++i)
    for (size_t k = t.letters.size(); k-- > i + 1;) {
      if (t.letters[k] != t.letters[i]) continue;
      const Value on = TRY(b.compare(TRY(b.iota(Dtype::s64, dims(t.value), int(i))),
                                     TRY(b.iota(Dtype::s64, dims(t.value), int(k))), "EQ"));
      const Value on_diagonal = TRY(b.select(on, t.value, TRY(b.number(dtype(t.value), 0))));
      t.value = TRY(b.reduce(on_diagonal, "add", {int64_t(k)}, false));
      t.letters.erase(k, 1);
    }
  return t;
}

// Sums over letters that nobody else needs.
Result<Term> sum_alone(Build& b, Term t, const std::string& needed) {
  Ints gone;
  std::string left;
  for (size_t i = 0; i < t.letters.size(); ++i) {
    if (needed.find(t.letters[i]) == std::string::npos) {
      gone.push_back(int64_t(i));
    } else {
      left += t.letters[i];
    }
  }
  if (!gone.empty()) t.value = TRY(b.reduce(t.value, "add", gone, false));
  t.letters = left;
  return t;
}

// A dim of one that the other side has larger is dropped: it repeats.
Result<void> drop_ones(Build& b, Term& t, const std::map<char, int64_t>& sizes) {
  Dims to;
  std::string left;
  for (size_t i = 0; i < t.letters.size(); ++i) {
    if (dims(t.value)[i] == 1 && sizes.at(t.letters[i]) != 1) continue;
    to.push_back(dims(t.value)[i]);
    left += t.letters[i];
  }
  t.value = TRY(b.reshape(t.value, to));
  t.letters = left;
  return {};
}

Result<Term> product(Build& b, const Term& l, const Term& r, const std::string& needed) {
  Ints lb, rb, lc, rc;
  Term out;
  for (size_t i = 0; i < l.letters.size(); ++i) {
    const int k = r.at(l.letters[i]);
    if (k < 0) continue;
    const bool stays = needed.find(l.letters[i]) != std::string::npos;
    (stays ? lb : lc).push_back(int64_t(i));
    (stays ? rb : rc).push_back(k);
    if (stays) out.letters += l.letters[i];
  }
  for (char letter : l.letters)
    if (r.at(letter) < 0) out.letters += letter;
  for (char letter : r.letters)
    if (l.at(letter) < 0) out.letters += letter;
  out.value = TRY(b.dot(l.value, r.value, lb, rb, lc, rc, dtype(l.value)));
  return out;
}

struct Equation {
  std::vector<std::string_view> terms = {};
  std::string_view result = {};
  bool is_explicit = false;
};

Equation parse(std::string_view text) {
  Equation out;
  const size_t arrow = text.find("->");
  out.is_explicit = arrow != std::string_view::npos;
  if (out.is_explicit) out.result = text.substr(arrow + 2);
  out.terms = split(text.substr(0, arrow), ',');
  return out;
}

// Without an arrow: the ellipsis, then letters named once, in alphabetical order.
std::string implicit_result(const std::vector<Term>& terms) {
  std::map<char, int> counts;
  for (const Term& t : terms)
    for (char letter : t.letters) ++counts[letter];
  std::string hidden, out;
  for (const auto& [letter, count] : counts) {
    if (letter <= 64) hidden.insert(hidden.begin(), letter);
    if (letter > 64 && count == 1) out += letter;
  }
  return hidden + out;
}

Result<std::string> result_letters(const Equation& equation, const std::vector<Term>& terms,
                                   const std::map<char, int64_t>& sizes) {
  if (!equation.is_explicit) return implicit_result(terms);
  int hidden = 0;
  for (const auto& [letter, size] : sizes) hidden = std::max(hidden, letter <= 64 ? int(letter) : 0);
  std::string out = TRY(spell(equation.result, int(equation.result.size()) - 3 + hidden));
  for (size_t i = 0; i < out.size(); ++i)
    if (!sizes.contains(out[i]) || out.find(out[i], i + 1) != std::string::npos)
      return fail(Code::invalid, cat("a result of `", equation.result, "`"));
  return out;
}

Lowered einsum(Call& c) {
  std::string text(c.text("equation"));
  std::erase(text, ' ');
  const Equation equation = parse(text);
  if (equation.terms.size() != c.in.size())
    return fail(Code::invalid, cat("found ", c.in.size(), " inputs for equation `", text, "`"));
  std::vector<Term> terms;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!c.has(i) || dtype(c.in[i]) != dtype(c.in[0]))
      return fail(Code::invalid, cat("input ", i, " is of another type"));
    terms.push_back({c.in[i], TRY(spell(equation.terms[i], rank(c.in[i])))});
    const Term& t = terms.back();
    if (int(t.letters.size()) != rank(t.value))
      return fail(Code::invalid, cat("term `", equation.terms[i], "` for ", ir::text(t.value.type())));
    for (size_t d = 0; d < t.letters.size(); ++d) {
      int64_t& size = sizes.try_emplace(t.letters[d], 1).first->second;
      if (size != 1 && dims(t.value)[d] != 1 && size != dims(t.value)[d])
        return fail(Code::invalid, cat("one letter of `", text, "` has sizes ", size, " and ", dims(t.value)[d]));
      if (size == 1) size = dims(t.value)[d];
    }
  }
  const std::string result = TRY(result_letters(equation, terms, sizes));
  for (Term& t : terms) {
    t = TRY(diagonals(c.b, t));
    TRY(drop_ones(c.b, t, sizes));
  }
  Term left = terms[0];
  for (size_t i = 0; i < terms.size(); ++i) {
    std::string needed = result;
    for (size_t k = i + 1; k < terms.size(); ++k) needed += terms[k].letters;
    if (i == 0) {
      left = TRY(sum_alone(c.b, left, needed));
    } else {
      left = TRY(product(c.b, left, TRY(sum_alone(c.b, terms[i], needed + left.letters)), needed));
      left = TRY(sum_alone(c.b, left, needed));
    }
  }
  Ints order;
  for (char letter : result) {
    if (left.at(letter) < 0) return fail(Code::invalid, cat("a result of `", text, "`"));
    order.push_back(left.at(letter));
  }
  return one(c.b.transpose(left.value, order));
}

// From the factors of lu: the product of the diagonal, and the sign of the permutation.
Lowered determinant(Call& c) {
  const Value x = c.in[0];
  const int r = rank(x);
  if (r < 2 || dims(x)[size_t(r - 1)] != dims(x)[size_t(r - 2)])
    return fail(Code::invalid, cat("of ", ir::text(x.type()), "; expected square matrices"));
  const int64_t n = dims(x)[size_t(r - 1)];
  const ir::Node* lu = TRY(c.b.node({.op = op::lu, .inputs = {x}}));
  const Value factors = lu->result(0), pivots = lu->result(1);
  const Dims plane = {n, n};
  const Value on = TRY(c.b.compare(TRY(c.b.iota(Dtype::s64, plane, 0)), TRY(c.b.iota(Dtype::s64, plane, 1)), "EQ"));
  const Value diagonal = TRY(c.b.select(on, factors, TRY(c.b.number(dtype(x), 1))));
  const Value size = TRY(c.b.reduce(diagonal, "multiply", {r - 2, r - 1}, false));
  const Value swaps = TRY(c.b.compare(pivots, TRY(c.b.iota(dtype(pivots), dims(pivots), rank(pivots) - 1)), "NE"));
  const Value one_value = TRY(c.b.number(dtype(x), 1)), minus = TRY(c.b.number(dtype(x), -1));
  const Value sign = TRY(c.b.reduce(TRY(c.b.select(swaps, minus, one_value)), "multiply", {r - 2}, false));
  return one(c.b.binary(op::multiply, size, sign));
}

const Row kRows[] = {
    {"Det", 11, 1, 1, determinant},
    {"Einsum", 12, 1, -1, einsum},
    {"Gemm", 7, 2, 3, gemm},
    {"MatMul", 1, 2, 2, mat_mul},
};

}  // namespace

std::span<const Row> rows_matmul() { return kRows; }

}  // namespace trine::front::onnx
