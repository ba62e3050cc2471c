// The ways of a unit, each written apart, and the one that is taken; see choose.h.
#include <algorithm>

#include "compile/device/loop.h"
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
  if (options_.timer && has_ways(unit))
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
  static constexpr std::string_view kOps[] = {"convolution", "dot_general", kAttentionGradient};
  return !unit.single || unit.attention || std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// Of the ways to cut it the fastest, then of those to turn what it turns. Units that the first way writes alike, as
// those of equal layers, are looked at once.
Chosen Lowering::choose(const Unit& unit, const std::vector<Choice>& ways) {
  Chosen out{unit_text(unit), ways, {}};
  std::vector<std::optional<Rehearsal>> all;
  all.push_back(rehearse(unit, out.ways[0]));
  if (!all[0] || (ways.size() == 1 && !(others_turn && all[0]->turns()))) return {std::move(out.unit), {ways[0]}, {}};
  Digest digest;
  for (const Choice& way : out.ways) digest.add(way.text());
  digest.add(all[0]->kernel);
  const auto [found, fresh] = chosen_before_.try_emplace(digest.key());
  if (!fresh) return {std::move(out.unit), found->second.ways, found->second.verdict};
  for (size_t i = 1; i < out.ways.size(); ++i) all.push_back(rehearse(unit, out.ways[i]));
  std::vector<bool> turns;
  for (const auto& way : all) turns.push_back(way && way->turns());
  out.verdict = fastest(std::move(all), rec_.chip(), options_.timer);
  if (others_turn && turns[out.verdict.best]) choose_turner(unit, out);
  return found->second = out;
}

void Lowering::choose_turner(const Unit& unit, Chosen& chosen) {
  const Choice cut = chosen.taken();
  std::vector<std::optional<Rehearsal>> all;
  all.push_back(rehearse(unit, cut));
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
}

std::vector<Choice> Lowering::ways_of(const Unit& unit) {
  const ir::Node* const dot = unit.product ? unit.product : unit.single;
  if (!dot && unit.is_loop()) return loop_ways(rec_, store_, unit);
  if (unit.attention || !dot || dot->op != "dot_general") return {Choice()};
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
