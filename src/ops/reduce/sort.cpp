// sort: orders all operands together along `dimension`, stable, by a comparator region of (a0, b0, a1, b1, ...), or,
// without one, by `direction` (LT or GT) of the first operand.
// C1: operands have one shape, the dimension is theirs. C2: the region takes two scalars per operand, gives bool[].
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/pool.h"
#include "ops/axes.h"
#include "ops/reduce/combine.h"
#include "ops/reduce/sort_order.h"

namespace trine::ops {

namespace {

Result<void> check_comparator(const ir::Region& region, std::span<const ir::Type> operands) {
  if (region.params.size() != 2 * operands.size() || region.results.size() != 1)
    return fail(Code::invalid, cat("its region takes ", region.params.size(), " values and gives ",
                                   region.results.size(), "; ", 2 * operands.size(), " and 1 were expected"));
  for (size_t i = 0; i < region.params.size(); ++i)
    if (!ir::same_tensor(region.params[i].type(), ir::tensor_type(operands[i / 2].dtype, {})))
      return fail(Code::invalid, cat("parameter ", i, " of its region is ", ir::text(region.params[i].type())));
  if (!ir::same_tensor(region.results[0].type(), ir::tensor_type(Dtype::boolean, {})))
    return fail(Code::invalid, cat("its region gives ", ir::text(region.results[0].type()), "; bool[] was expected"));
  return {};
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an operand");
  const int64_t rank = call.inputs[0].rank(), dimension = call.attrs.integer("dimension", -1);
  if (dimension < -rank || dimension >= rank)
    return fail(Code::invalid, cat("dimension ", dimension, " is out of range for rank ", rank));
  std::vector<ir::Type> types;
  for (const ir::Type& t : call.inputs) {
    if (t.dims != call.inputs[0].dims)
      return fail(Code::invalid, cat("operands differ in shape: ", ir::text(call.inputs[0]), " and ", ir::text(t)));
    types.push_back(ir::tensor_type(t.dtype, t.dims));
  }
  const std::string_view direction = call.attrs.text("direction");
  if (!call.regions.empty()) {
    TRY(check_comparator(call.regions[0], call.inputs));
  } else if (direction != "LT" && direction != "GT") {
    return fail(Code::invalid, cat("direction is `", direction, "`; LT, GT or a region was expected"));
  }
  return types;
}

// Bottom-up merging: stable, and safe whatever the comparator answers.
template <class Less>
Result<void> merge_sort(std::vector<int64_t>& order, std::vector<int64_t>& scratch, Less&& less) {
  const size_t n = order.size();
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t lo = 0; lo < n; lo += 2 * width) {
      const size_t mid = std::min(lo + width, n), hi = std::min(lo + 2 * width, n);
      size_t a = lo, b = mid, to = lo;
      while (a < mid && b < hi) scratch[to++] = TRY(less(order[b], order[a])) ? order[b++] : order[a++];
      std::copy(order.begin() + int64_t(a), order.begin() + int64_t(mid), scratch.begin() + int64_t(to));
      std::copy(order.begin() + int64_t(b), order.begin() + int64_t(hi), scratch.begin() + int64_t(to + mid - a));
    }
    std::swap(order, scratch);
  }
  return {};
}

// Compares two elements of the operands by the region, or by an unordered float comparison of the first operand.
struct Comparator {
  const Eval& e;
  std::optional<LaneBody> body = {};
  WideArray<Complex128> first = {};
  bool is_descending = false;

  static Result<Comparator> make(const Eval& e) {
    Comparator c{.e = e, .is_descending = e.node.attrs.text("direction") == "GT"};
    if (e.node.regions.empty()) {
      c.first = load_wide<Complex128>(e.in[0]);
    } else {
      c.body = TRY(LaneBody::make(e, e.node.regions[0], 1));
    }
    return c;
  }
  Result<bool> operator()(int64_t a, int64_t b) {
    if (!body) return is_descending ? plain_less(first[b], first[a]) : plain_less(first[a], first[b]);
    for (size_t i = 0; i < e.in.size(); ++i) {
      copy_element(body->param(2 * i), 0, e.in[i], a);
      copy_element(body->param(2 * i + 1), 0, e.in[i], b);
    }
    return body->test();
  }
  static bool plain_less(const Complex128& a, const Complex128& b) {
    return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
  }
};

struct Item {
  uint64_t key = 0;
  int64_t from = 0;  // index in the line
};

// Stable, digit by digit from the lowest; a digit that all keys share is passed over.
void radix_sort(std::vector<Item>& items, std::vector<Item>& scratch) {
  constexpr size_t kFew = 64, kDigits = 8, kValues = 256;  // bytes of a key
  if (items.size() < kFew) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
    return;
  }
  std::array<std::array<size_t, kValues>, kDigits> counts = {};
  for (const Item& item : items)
    for (size_t d = 0; d < kDigits; ++d) ++counts[d][item.key >> (8 * d) & 255];
  for (size_t d = 0; d < kDigits; ++d) {
    auto& count = counts[d];
    if (count[items[0].key >> (8 * d) & 255] == items.size()) continue;
    size_t begin = 0;
    for (size_t& c : count) begin += std::exchange(c, begin);
    for (const Item& item : items) scratch[count[item.key >> (8 * d) & 255]++] = item;
    std::swap(items, scratch);
  }
}

// The order of a line by keys that are numbers, the weightiest first in `keys`.
void sort_line(std::span<const std::vector<uint64_t>> keys, int64_t line, std::span<const int64_t> steps,
               std::vector<Item>& items, std::vector<Item>& scratch) {
  for (size_t i = 0; i < steps.size(); ++i) items[i].from = int64_t(i);
  for (size_t k = keys.size(); k-- > 0;) {
    for (Item& item : items) item.key = keys[k][size_t(line + steps[size_t(item.from)])];
    radix_sort(items, scratch);
  }
}

template <size_t kBytes>
void move_line(const TensorView& to, const TensorView& from, int64_t line, std::span<const int64_t> steps,
               std::span<const Item> items) {
  auto *out = to.as<std::byte>(), *in = from.as<std::byte>();
  for (size_t i = 0; i < items.size(); ++i)
    std::memcpy(out + size_t(line + steps[i]) * kBytes, in + size_t(line + steps[size_t(items[i].from)]) * kBytes,
                kBytes);
}

void sort_known(const Eval& e, std::span<const SortKey> known, std::span<const int64_t> lines,
                std::span<const int64_t> steps) {
  constexpr int64_t kGrain = 4096;  // elements worth a task
  std::vector<std::vector<uint64_t>> keys;
  for (const SortKey& key : known) keys.push_back(sort_keys(key, e.in[key.operand]));
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(int64_t(steps.size()), 1));
  parallel_for(int64_t(lines.size()), grain, [&](int64_t begin, int64_t end) {
    std::vector<Item> items(steps.size()), scratch(steps.size());
    for (int64_t l = begin; l < end; ++l) {
      const int64_t line = lines[size_t(l)];
      sort_line(keys, line, steps, items, scratch);
      for (size_t x = 0; x < e.in.size(); ++x) {
        const int size = bytes(e.in[x].dtype);
        auto* move = size == 1   ? move_line<1>
                     : size == 2 ? move_line<2>
                     : size == 4 ? move_line<4>
                     : size == 8 ? move_line<8>
                                 : move_line<16>;
        move(e.out[x], e.in[x], line, steps, items);
      }
    }
  });
}

Result<void> eval(const Eval& e) {
  const Dims& dims = e.in[0].dims;
  const int64_t rank = int64_t(dims.size());
  int64_t dimension = e.node.attrs.integer("dimension", -1);
  if (dimension < 0) dimension += rank;
  const auto lines = offsets_of(dims, axes_besides(int(rank), {dimension}));
  const auto steps = offsets_of(dims, {dimension});
  if (const auto known = sort_order(e.node)) {
    sort_known(e, *known, lines, steps);
    return {};
  }
  Comparator comparator = TRY(Comparator::make(e));
  std::vector<int64_t> order(steps.size()), scratch(steps.size());
  for (int64_t line : lines) {
    for (size_t i = 0; i < steps.size(); ++i) order[i] = line + steps[i];
    TRY(merge_sort(order, scratch, comparator));
    for (size_t i = 0; i < steps.size(); ++i)
      for (size_t x = 0; x < e.in.size(); ++x) copy_element(e.out[x], line + steps[i], e.in[x], order[i]);
  }
  return {};
}

}  // namespace

extern const Op op_sort{.name = "sort",
                        .kind = OpKind::other,
                        .attrs = "dimension is_stable direction compare_type",
                        .infer = infer,
                        .eval = eval};

}  // namespace trine::ops
