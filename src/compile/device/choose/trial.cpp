// The ways of a unit, each written apart, and the one that is taken; see choose.h.
#include <algorithm>
#include <utility>

#include "compile/device/choose/unit_key.h"
#include "compile/device/loops/loop.h"
#include "compile/device/lower.h"

namespace trine::compile::device {

namespace {

// What a unit reads: through views, to what is in memory.
std::vector<ir::Value> reads_of(const Unit& unit, const Store& store) {
  std::vector<const ir::Node*> nodes(unit.members.begin(), unit.members.end());
  for (const ir::Node* node : {unit.single, unit.product})
    if (node) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
  std::vector<ir::Value> out;
  const auto add = [&](ir::Value v) {
    while (!store.has(v) && view_kind(*v.node) != ViewKind::none) v = v.node->inputs[0];
    if (store.has(v)) out.push_back(v);
  };
  for (const ir::Node* node : nodes)
    for (const auto* list : {&node->inputs, &node->captures})
      for (const ir::Value& v : *list) add(v);
  if (unit.attention)
    for (const ir::Value& v : unit.attention->reads()) add(v);
  return out;
}

// What is there before the program runs: it can be loaded at any time.
bool is_given(const Memory& m, const arch::Program& p) {
  if (m.input >= 0) return true;
  if (m.hbm < 0) return false;
  const arch::TensorKind kind = p.tensors[size_t(m.hbm)].kind;
  return m.forms.empty() && (kind == arch::TensorKind::input || kind == arch::TensorKind::constant);
}

// Works from `first` on that read one of the tensors begin after the work before `first` is over.
void wait_for(arch::Kernel& kernel, size_t first, std::vector<uint32_t>& tensors) {
  std::sort(tensors.begin(), tensors.end());
  const auto after = uint32_t(kernel.afters.size());
  kernel.afters.push_back(uint32_t(first - 1));
  for (size_t w = first; w < kernel.works.size(); ++w) {
    arch::Work& work = kernel.works[w];
    for (size_t s = 0; s < work.info->slots.size(); ++s) {
      const arch::Operand& o = kernel.program().operands[work.operand + s];
      if (o.kind != arch::OperandKind::tile || !std::binary_search(tensors.begin(), tensors.end(), o.tensor)) continue;
      work.after = after, work.afters = 1;
    }
  }
}

}  // namespace

void Lowering::lower(const Unit& unit) {
  const std::vector<Choice> ways = has_ways(unit) ? ways_of(unit) : std::vector{Choice()};
  store_.choice = ways[0];
  if (options_.timer && has_ways(unit) && !summed_.count(unit.product ? unit.product : unit.single))
    if (Chosen chosen = choose(unit, ways); chosen.ways.size() > 1) {
      chosen_.push_back(std::move(chosen));
      store_.choice = chosen_.back().taken();
    }
  lower_chosen(unit);
  store_.choice = Choice();
}

// Multiplies can be cut in several ways; they and loops of elements may turn what they read.
bool Lowering::has_ways(const Unit& unit) {
  const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
  if (node.types[0].elements() == 0 || (unit.product && unit.product->types[0].elements() == 0)) return false;
  static constexpr ir::OpId kOps[] = {op::convolution, op::dot_general, op::attention_gradient};
  return !unit.single || unit.attention || std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// Of the ways to cut it the fastest, then of those to turn what it turns. Units of one key, as those of equal layers,
// are looked at once, and so are those that the first way writes alike.
Chosen Lowering::choose(const Unit& unit, const std::vector<Choice>& ways) {
  const Digest::Key like = key_of(unit, ways);
  if (const auto found = choices.by_unit.find(like); found != choices.by_unit.end())
    return found->second.of(unit_text(unit), others_turn);
  if (ways.size() == 1 && !others_turn) return {unit_text(unit), ways, {}};
  std::optional<Rehearsal> first = rehearse(unit, ways[0]);
  if (!first || (ways.size() == 1 && !first->turns()))
    return choices.by_unit.emplace(like, ChosenOnce{{ways[0]}}).first->second.of(unit_text(unit), others_turn);
  Digest digest;
  for (const Choice& way : ways) digest.add(way.text());
  digest.add(first->kernel);
  const auto [found, fresh] = choices.by_kernel.try_emplace(digest.key());
  ChosenOnce& out = found->second;
  if (fresh) out.ways = ways;
  if (fresh && ways.size() > 1)
    out.cut = fastest_cut(unit, ways, std::exchange(first, {}), out.turns);
  else if (fresh)
    out.cut.fs = {0}, out.turns = true;  // timed beside the other turners
  if (others_turn && out.turns && !out.turned)
    out.turned = choose_turner(unit, out, fresh && first ? std::move(first) : rehearse(unit, ways[out.cut.best]));
  choices.by_unit.emplace(like, out);
  return out.of(unit_text(unit), others_turn);
}

Digest::Key Lowering::key_of(const Unit& unit, const std::vector<Choice>& ways) {
  UnitKey key(unit, store_, rec_.kernel().program());
  for (const Choice& way : ways) key.add(way.text());
  const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
  key.add(uint64_t(wants_turned(node)) << 1 | uint64_t(done_.count(&node)));
  if (const auto as = written_as_.find(unit.product ? unit.product : unit.single); as != written_as_.end()) {
    key.add(as->second);
    key.add(uint64_t(wants_turned(*as->second)));
  }
  return key.key();
}

Verdict Lowering::fastest_cut(const Unit& unit, const std::vector<Choice>& ways, std::optional<Rehearsal> first,
                              bool& turns) {
  std::vector<std::optional<Rehearsal>> all;
  all.push_back(std::move(first));
  for (size_t i = 1; i < ways.size(); ++i) all.push_back(rehearse(unit, ways[i]));
  std::vector<bool> turn;
  for (const auto& way : all) turn.push_back(way && way->turns());
  const Verdict out = fastest(std::move(all), rec_.chip(), options_.timer);
  turns = turn[out.best];
  return out;
}

// alone: with its fastest cut, turned by the tensor engine.
Chosen Lowering::choose_turner(const Unit& unit, const ChosenOnce& cuts, std::optional<Rehearsal> alone) {
  Chosen chosen{{}, cuts.ways, cuts.cut};
  const Choice cut = chosen.taken();
  std::vector<std::optional<Rehearsal>> all;
  all.push_back(std::move(alone));
  const size_t first = chosen.ways.size();
  for (Turner by : {Turner::dma, Turner::vector}) {
    chosen.ways.push_back(cut);
    chosen.ways.back().turner = by;
    all.push_back(rehearse(unit, chosen.ways.back()));
  }
  const Verdict verdict = fastest(std::move(all), rec_.chip(), options_.timer);
  chosen.verdict.fs[chosen.verdict.best] = verdict.fs[0];
  chosen.verdict.fs.insert(chosen.verdict.fs.end(), verdict.fs.begin() + 1, verdict.fs.end());
  if (verdict.best) chosen.verdict.best = first + verdict.best - 1;
  return chosen;
}

std::vector<Choice> Lowering::ways_of(const Unit& unit) {
  const ir::Node* const dot = unit.product ? unit.product : unit.single;
  if (!dot && unit.is_loop()) return loop_ways(rec_, store_, unit);
  if (unit.attention || !dot || dot->op != op::dot_general) return {Choice()};
  const ir::Node& out = unit.product && !unit.roots.empty() ? *unit.roots[0] : *dot;
  return dot_ways(rec_, store_, *dot, wants_turned(out), options_.dots);
}

// The unit alone on a recorder of its own; what it reads lies there as it does here.
std::optional<Rehearsal> Lowering::rehearse(const Unit& unit, const Choice& way) {
  const std::vector<ir::Value> reads = reads_of(unit, store_);
  std::vector<std::pair<ir::Value, Dtype>> writes;
  const auto write = [&](const ir::Node* node) {
    for (uint32_t i = 0; node && i < node->types.size(); ++i)
      writes.push_back({node->result(i), store_.of(node->result(i)).dtype});
  };
  write(unit.single), write(unit.product);
  for (const ir::Node* root : unit.roots) write(root);
  if (unit.attention && unit.attention->keeps_rows)
    for (const AttentionPart* part : {&unit.attention->top, &unit.attention->sum}) write(part->value.node);
  if (unit.product)
    if (const auto as = written_as_.find(unit.product); as != written_as_.end()) write(as->second);
  Recorder rec("", rec_.chip(), kTimedMax);
  Store store(rec);
  std::swap(rec_, rec), store_.swap(store);
  store_.choice = way;
  const arch::Program& here = rec.kernel().program();
  std::vector<uint32_t> made;  // tensors of the turn in hand that another unit made
  const auto turn = [&] {
    Store fresh(rec_);
    store_.swap(fresh);
    made.clear();
    for (const ir::Value& v : reads) {
      store_.mirror(store, here, v);
      const Memory& m = store_.of(v);
      if (is_given(m, rec_.kernel().program())) continue;
      for (const Form& f : m.forms) made.insert(made.end(), f.tensors.begin(), f.tensors.end());
      if (m.hbm >= 0) made.push_back(uint32_t(m.hbm));
    }
    for (const auto& [v, dtype] : writes) store_.of(v).dtype = dtype;
    lower_chosen(unit);
  };
  turn();
  Rehearsal out;
  if (!made.empty() && rec_.work_count() && rec_.work_count() < kLong && !rec_.error()) {
    out.alone = rec_.kernel();
    const size_t first = rec_.work_count();
    turn();
    wait_for(rec_.kernel(), first, made);
  }
  std::swap(rec_, rec), store_.swap(store);
  if (rec.error()) return std::nullopt;
  out.kernel = std::move(rec.kernel());
  return out;
}

}  // namespace trine::compile::device
