// Lists of tensors (sequences and optionals) that are known when the model is read: no tensor of the graph is a list.
#include "base/text.h"
#include "front/onnx/call.h"

namespace trine::front::onnx {

namespace {

Result<const Values*> need_list(Call& c, size_t i) {
  if (i >= c.items.size() || c.items[i].list == nullptr)
    return fail(Code::invalid, cat("input ", i, " is no list of tensors"));
  return c.items[i].list.get();
}

Lowered give(Call& c, Values list) {
  c.lists.push_back({.list = std::make_shared<const Values>(std::move(list))});
  return Values{};
}

// Negative indices count from the end of the list; inserting may be at the end too.
Result<size_t> list_index(Call& c, size_t input, size_t size, bool inserts = false) {
  const Ints at = TRY(c.need_ints(input, "position"));
  const auto n = int64_t(size);
  if (at.size() != 1 || at[0] < -n || at[0] >= n + inserts)
    return fail(Code::invalid, cat("position ", ir::text(ir::Attr(at)), " in a list of ", n));
  return size_t(at[0] < 0 ? at[0] + n : at[0]);
}

Lowered construct(Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (!c.has(i)) return fail(Code::invalid, cat("input ", i, " is absent"));
  return give(c, c.in);
}
Lowered empty(Call& c) { return give(c, {}); }

Lowered at(Call& c) {
  const Values& list = *TRY(need_list(c, 0));
  return Values{list[TRY(list_index(c, 1, list.size()))]};
}

Lowered insert(Call& c) {
  Values list = *TRY(need_list(c, 0));
  if (!c.has(1)) return fail(Code::invalid, "input 1 is no tensor");
  const size_t where = c.has(2) ? TRY(list_index(c, 2, list.size(), true)) : list.size();
  list.insert(list.begin() + int64_t(where), c.in[1]);
  return give(c, std::move(list));
}

Lowered erase(Call& c) {
  Values list = *TRY(need_list(c, 0));
  if (list.empty()) return fail(Code::invalid, "the list is empty");
  const size_t where = c.has(1) ? TRY(list_index(c, 1, list.size())) : list.size() - 1;
  list.erase(list.begin() + int64_t(where));
  return give(c, std::move(list));
}

Lowered length(Call& c) { return Values{c.b.integer(int64_t(TRY(need_list(c, 0))->size()))}; }

Lowered concat(Call& c) {
  Values list = *TRY(need_list(c, 0));
  if (list.empty()) return fail(Code::invalid, "the list is empty");
  const int64_t axis = c.integer("axis", 0);
  const bool fresh = c.integer("new_axis", 0) != 0;
  const int at = TRY(c.axis(axis, rank(list[0]) + fresh));
  for (Value& v : list) {
    if (rank(v) != rank(list[0]) && !fresh) return fail(Code::invalid, "the list holds tensors of several ranks");
    Dims to = dims(v);
    if (fresh) to.insert(to.begin() + std::min(at, rank(v)), 1);
    if (fresh) v = TRY(c.b.reshape(v, to));
  }
  return one(c.b.concat(list, at));
}

// Into parts of given sizes, of one size, or of single elements without their dim.
Lowered split_to_list(Call& c) {
  const Value x = c.in[0];
  const int axis = TRY(c.axis(c.integer("axis", 0), rank(x)));
  const int64_t size = dims(x)[size_t(axis)];
  const bool singles = !c.has(1), keep = !singles || c.integer("keepdims", 1) != 0;
  Ints sizes = singles ? Ints{1} : TRY(c.need_ints(1, "split"));
  if (singles || rank(c.in[1]) == 0) {
    const int64_t each = sizes.empty() ? 0 : sizes[0];
    if (each < 1 || size / each > (1 << 16)) return fail(Code::invalid, cat("parts of ", each, " of a dim of ", size));
    sizes.clear();
    for (int64_t done = 0; done < size; done += each) sizes.push_back(std::min(each, size - done));
  }
  Values out;
  int64_t done = 0;
  for (int64_t s : sizes) {
    if (s < 0 || s > size - done)
      return fail(Code::invalid, cat("parts of ", ir::text(ir::Attr(sizes)), " of a dim of ", size));
    Value part = TRY(c.b.slice_dim(x, axis, done, done + s));
    Dims to = dims(part);
    if (!keep) to.erase(to.begin() + axis);
    out.push_back(TRY(c.b.reshape(part, to)));
    done += s;
  }
  if (done != size) return fail(Code::invalid, cat("parts of ", ir::text(ir::Attr(sizes)), " of a dim of ", size));
  return give(c, std::move(out));
}

Lowered pass(Call& c) {
  c.lists.push_back(c.items[0]);
  return Values{};
}
Lowered has_element(Call& c) { return one(c.b.number(Dtype::boolean, !c.items.empty() && c.items[0])); }

const Row kRows[] = {
    {"ConcatFromSequence", 11, 1, 1, concat, {}, true},
    {"Identity", 1, 1, 1, pass, {}, true},
    {"Optional", 15, 1, 1, pass, {}, true},
    {"OptionalGetElement", 15, 1, 1, pass, {}, true},
    {"OptionalHasElement", 15, 0, 1, has_element, {}, true},
    {"SequenceAt", 11, 2, 2, at, {}, true},
    {"SequenceConstruct", 11, 1, -1, construct},
    {"SequenceEmpty", 11, 0, 0, empty},
    {"SequenceErase", 11, 1, 2, erase, {}, true},
    {"SequenceInsert", 11, 2, 3, insert, {}, true},
    {"SequenceLength", 11, 1, 1, length, {}, true},
    {"SplitToSequence", 11, 1, 2, split_to_list},
};

}  // namespace

std::span<const Row> rows_list() { return kRows; }

}  // namespace trine::front::onnx
