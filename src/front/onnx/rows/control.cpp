// If, Loop and Scan: bodies inlined where the choice is known, `case` and `while` where it is not.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "front/onnx/loop.h"
#include "front/onnx/maker.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kWrittenOutMax = 1024;  // steps of a loop whose shapes change from step to step

Result<const GraphProto*> need_graph(Call& c, std::string_view name) {
  const GraphProto* g = c.graph(name);
  if (g == nullptr) return fail(Code::invalid, cat("attribute `", name, "` is absent; expected a graph"));
  return g;
}

// A one-element tensor as a scalar; null stays null.
Result<Value> scalar(Call& c, size_t i, Dtype to) {
  if (!c.has(i)) return Value{};
  if (c.in[i].type().elements() != 1)
    return fail(Code::invalid, cat("input ", i, " is ", ir::text(c.in[i].type()), "; expected one element"));
  return c.b.convert(TRY(c.b.reshape(c.in[i], {})), to);
}

Result<Values> tensors(const std::vector<Item>& items) {
  Values out;
  for (const Item& item : items) {
    if (!item.value) return fail(Code::unsupported, "lists of tensors inside a body that is not written out");
    out.push_back(item.value);
  }
  return out;
}

// Each branch takes what either uses, as parameters of its own.
Lowered choose(Call& c, Value cond, const GraphProto& yes, const GraphProto& no) {
  std::set<std::string_view> names;
  for (const GraphProto* g : {&yes, &no})
    for (std::string_view name : c.maker.used_names(*g)) {
      const Item item = c.maker.lookup(name);
      if (!item.value) return fail(Code::unsupported, cat("its branches use `", name, "`, a list of tensors"));
      if (item.value.node->op != op::constant) names.insert(name);
    }
  const std::vector<std::string_view> used(names.begin(), names.end());
  const Value zero = TRY(c.b.number(Dtype::s32, 0)), other = TRY(c.b.number(Dtype::s32, 1));
  Values inputs = {TRY(c.b.select(cond, zero, other))};
  for (std::string_view name : used) inputs.push_back(c.maker.lookup(name).value);
  std::vector<ir::Region> regions;
  for (const GraphProto* g : {&yes, &no}) {
    ir::Region region;
    for (size_t i = 1; i < inputs.size(); ++i)
      region.params.push_back(c.b.graph.parameter(inputs[i].type(), c.b.where));
    const Maker::Rename rename(c.maker, used, region.params);
    region.results = TRY(tensors(TRY(c.maker.body(*g, {}))));
    regions.push_back(std::move(region));
  }
  const Values &a = regions[0].results, &b = regions[1].results;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!ir::same_tensor(a[i].type(), b[i].type()))
      return fail(Code::unsupported, cat("its branches give ", ir::text(a[i].type()), " and ", ir::text(b[i].type()),
                                         "; expected one type"));
  const ir::Node* node = TRY(c.b.node({.op = op::case_, .inputs = std::move(inputs), .regions = std::move(regions)}));
  Values out;
  for (uint32_t i = 0; i < node->types.size(); ++i) out.push_back(node->result(i));
  return out;
}

Lowered branch(Call& c) {
  const GraphProto &yes = *TRY(need_graph(c, "then_branch")), &no = *TRY(need_graph(c, "else_branch"));
  const Value cond = TRY(scalar(c, 0, Dtype::boolean));
  if (const Tensor* known = c.b.known(cond)) {
    c.lists = TRY(c.maker.body(*known->view().as<uint8_t>() != 0 ? yes : no, {}));
    return Values{};
  }
  return choose(c, cond, yes, no);
}

struct LoopNode {
  const GraphProto* body = nullptr;
  int64_t iterations = -1;
  Value limit = {}, go_on = {};
  bool never_stops = false;  // go_on is true before the first step, as far as known
};

// One step of the body: its outputs are go_on, carried values, collected values.
Result<std::vector<Item>> loop_step(Call& c, const LoopNode& l, Value number, Value go_on,
                                    const std::vector<Item>& carried) {
  std::vector<Item> inputs = {{.value = number}, {.value = go_on}};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  auto out = TRY(c.maker.body(*l.body, inputs));
  if (out.size() < 1 + carried.size())
    return fail(Code::invalid, cat("its body gives ", out.size(), " values; expected a condition and ", carried.size(),
                                   " carried ones"));
  return out;
}

Lowered loop_while(Call& c, const LoopNode& l) {
  Values carried;
  for (size_t i = 2; i < c.items.size(); ++i) {
    if (!c.has(i)) return fail(Code::unsupported, "carries a list of tensors");
    carried.push_back(c.in[i]);
  }
  const Value yes = TRY(c.b.number(Dtype::boolean, 1));
  Loop loop{.iterations = l.iterations, .limit = l.limit, .go_on = l.go_on, .carried = carried};
  bool may_stop = false;
  loop.step = [&](Value number, const Values& values) -> Result<Step> {
    std::vector<Item> items;
    for (const Value& v : values) items.push_back({.value = v});
    const Values out = TRY(tensors(TRY(loop_step(c, l, number, yes, items))));
    Step step{.go_on = TRY(c.b.convert(TRY(c.b.reshape(out[0], {})), Dtype::boolean))};
    step.carried.assign(out.begin() + 1, out.begin() + 1 + int64_t(values.size()));
    step.collected.assign(out.begin() + 1 + int64_t(values.size()), out.end());
    const Tensor* known = c.b.known(step.go_on);
    may_stop = known == nullptr || *known->view().as<uint8_t>() == 0;
    if (!step.collected.empty() && (may_stop || !l.never_stops))
      return fail(Code::unsupported, "it collects values but may stop early, so their number is not known");
    return step;
  };
  return run_loop(c.b, loop);
}

// Step after step, each with its own nodes: shapes may change.
Lowered loop_written_out(Call& c, const LoopNode& l) {
  std::vector<Item> carried(c.items.begin() + 2, c.items.end());
  Value go_on = l.go_on ? l.go_on : TRY(c.b.number(Dtype::boolean, 1));
  std::vector<Values> collected;
  for (int64_t i = 0; l.iterations < 0 || i < l.iterations; ++i) {
    const Tensor* known = c.b.known(go_on);
    if (known == nullptr) return fail(Code::unsupported, "whether it goes on depends on the model's inputs");
    if (*known->view().as<uint8_t>() == 0) break;
    if (i >= kWrittenOutMax)
      return fail(Code::unsupported, cat("more than ", kWrittenOutMax, " steps whose shapes differ"));
    auto out = TRY(loop_step(c, l, c.b.integer(i), go_on, carried));
    if (!out[0].value) return fail(Code::invalid, "its condition is a list");
    go_on = TRY(c.b.convert(TRY(c.b.reshape(out[0].value, {})), Dtype::boolean));
    const size_t scans = out.size() - 1 - carried.size();
    collected.resize(scans);
    for (size_t k = 0; k < scans; ++k) {
      if (!out[1 + carried.size() + k].value) return fail(Code::unsupported, "collects lists");
      const Value v = out[1 + carried.size() + k].value;
      Dims row = dims(v);
      row.insert(row.begin(), 1);
      collected[k].push_back(TRY(c.b.reshape(v, row)));
    }
    carried.assign(out.begin() + 1, out.begin() + 1 + int64_t(carried.size()));
  }
  c.lists = carried;
  Values out;
  for (const Values& rows : collected) out.push_back(TRY(c.b.concat(rows, 0)));
  return out;
}

Lowered loop(Call& c) {
  c.items.resize(std::max<size_t>(c.items.size(), 2));  // the limit and the condition may be left out
  c.in.resize(c.items.size());
  LoopNode l{.body = TRY(need_graph(c, "body")),
             .limit = TRY(scalar(c, 0, Dtype::s64)),
             .go_on = TRY(scalar(c, 1, Dtype::boolean))};
  for (size_t i = 2; i < c.items.size(); ++i)
    if (!c.items[i]) return fail(Code::invalid, cat("input ", i, " is absent"));
  if (l.limit)
    if (const Tensor* known = c.b.known(l.limit)) l.iterations = std::max<int64_t>(*known->view().as<int64_t>(), 0);
  const Tensor* starts = l.go_on ? c.b.known(l.go_on) : nullptr;
  l.never_stops = !l.go_on || (starts != nullptr && *starts->view().as<uint8_t>() != 0);
  if (starts != nullptr && *starts->view().as<uint8_t>() == 0) l.iterations = 0;
  auto done = loop_while(c, l);
  if (done) return done;
  auto written = loop_written_out(c, l);
  return written ? written : done;
}

// The axis of scan input or output i.
Result<int> scan_axis(Call& c, const Ints& axes, size_t i, int rank) {
  return c.axis(i < axes.size() ? axes[i] : 0, rank);
}

// Moves the first dim to `axis`.
Made first_to(Build& b, Value x, int axis) {
  Ints order = count_up(1, rank(x));
  order.insert(order.begin() + axis, 0);
  return b.transpose(x, order);
}

Lowered scan(Call& c) {
  const GraphProto& body = *TRY(need_graph(c, "body"));
  const int64_t scans = c.integer("num_scan_inputs", 0), states = int64_t(c.in.size()) - scans;
  if (scans < 1 || states < 0)
    return fail(Code::invalid, cat("num_scan_inputs of ", scans, " with ", c.in.size(), " inputs"));
  for (size_t i = 0; i < c.in.size(); ++i)
    if (!c.has(i)) return fail(Code::invalid, cat("input ", i, " is absent"));
  const Ints axes = c.ints("scan_input_axes"), backward = c.ints("scan_input_directions");
  const Ints out_axes = c.ints("scan_output_axes"), out_backward = c.ints("scan_output_directions");
  Loop loop{.carried = Values(c.in.begin(), c.in.begin() + states)};
  Values scanned;
  std::vector<int> at;
  for (int64_t i = 0; i < scans; ++i) {
    Value x = c.in[size_t(states + i)];
    at.push_back(TRY(scan_axis(c, axes, size_t(i), rank(x))));
    if (size_t(i) < backward.size() && backward[size_t(i)] != 0)
      x = TRY(c.b.op(op::reverse, {x}, {{"dimensions", Ints{at.back()}}}));
    scanned.push_back(x);
    const int64_t size = dims(x)[size_t(at.back())];
    if (i > 0 && size != loop.iterations)
      return fail(Code::invalid, cat("scan inputs of ", loop.iterations, " and ", size, " steps"));
    loop.iterations = size;
  }
  loop.step = [&](Value number, const Values& carried) -> Result<Step> {
    std::vector<Item> inputs;
    for (const Value& v : carried) inputs.push_back({.value = v});
    for (size_t i = 0; i < scanned.size(); ++i)
      inputs.push_back({.value = TRY(at_step(c.b, scanned[i], at[i], number))});
    const Values out = TRY(tensors(TRY(c.maker.body(body, inputs))));
    if (int64_t(out.size()) < states)
      return fail(Code::invalid, cat("its body gives ", out.size(), " values; it carries ", states));
    return Step{.carried = Values(out.begin(), out.begin() + states),
                .collected = Values(out.begin() + states, out.end())};
  };
  Values out = TRY(run_loop(c.b, loop));
  for (size_t i = size_t(states); i < out.size(); ++i) {
    const size_t k = i - size_t(states);
    if (k < out_backward.size() && out_backward[k] != 0)
      out[i] = TRY(c.b.op(op::reverse, {out[i]}, {{"dimensions", Ints{0}}}));
    out[i] = TRY(first_to(c.b, out[i], TRY(scan_axis(c, out_axes, k, rank(out[i])))));
  }
  return out;
}

const Row kRows[] = {
    {"If", 1, 1, 1, branch},
    {"Loop", 1, 0, -1, loop, {}, true},
    {"Scan", 9, 1, -1, scan},
};

}  // namespace

std::span<const Row> rows_control() { return kRows; }

}  // namespace trine::front::onnx
