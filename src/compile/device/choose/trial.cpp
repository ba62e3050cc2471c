// The variants of a unit, each recorded apart, and the one that is taken; see choose.h.
#include <algorithm>
#include <utility>

#include "compile/device/choose/unit_key.h"
#include "compile/device/loops/loop.h"
#include "compile/device/lower.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

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

// Instructions from `first` on that read one of the tensors begin after the instruction before `first` is over.
void wait_for(arch::Kernel& kernel, size_t first, std::vector<uint32_t>& tensors) {
  std::sort(tensors.begin(), tensors.end());
  const auto after = uint32_t(kernel.afters.size());
  kernel.afters.push_back(uint32_t(first - 1));
  for (size_t w = first; w < kernel.insns.size(); ++w) {
    arch::KernelInsn& insn = kernel.insns[w];
    for (size_t s = 0; s < insn.info->slots.size(); ++s) {
      const arch::Operand& o = kernel.program().operands[insn.operand + s];
      if (o.kind != arch::OperandKind::tile || !std::binary_search(tensors.begin(), tensors.end(), o.tensor)) continue;
      insn.after = after, insn.afters = 1;
    }
  }
}

}  // namespace

void Lowering::lower(const Unit& unit) {
  const std::vector<Choice> variants = has_variants(unit) ? variants_of(unit) : std::vector{Choice()};
  store_.choice = variants[0];
  if (options_.timer && has_variants(unit) && !summed_.count(unit.product ? unit.product : unit.single))
    if (Chosen chosen = choose(unit, variants); chosen.variants.size() > 1) {
      chosen_.push_back(std::move(chosen));
      store_.choice = chosen_.back().taken();
    }
  lower_chosen(unit);
  store_.choice = Choice();
}

// Multiplies have several variants; they and loops of elements may transpose what they read.
bool Lowering::has_variants(const Unit& unit) {
  const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
  if (node.types[0].elements() == 0 || (unit.product && unit.product->types[0].elements() == 0)) return false;
  static constexpr ir::OpId kOps[] = {op::convolution, op::dot_general, op::attention_gradient};
  return !unit.single || unit.attention || std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// Of the variants the fastest, then of the engines that can transpose for it. Units of one key, as those of equal
// layers, are looked at once, and so are those that the first variant records alike.
Chosen Lowering::choose(const Unit& unit, const std::vector<Choice>& variants) {
  const Digest::Key like = key_of(unit, variants);
  if (const auto found = choices.by_unit.find(like); found != choices.by_unit.end())
    return found->second.of(unit_text(unit), others_transpose);
  if (variants.size() == 1 && !others_transpose) return {unit_text(unit), variants, {}};
  std::optional<Trial> first = record_trial(unit, variants[0]);
  if (!first || (variants.size() == 1 && !first->transposes()))
    return choices.by_unit.emplace(like, ChosenOnce{{variants[0]}}).first->second.of(unit_text(unit), others_transpose);
  Digest digest;
  for (const Choice& variant : variants) digest.add(variant.text());
  digest.add(first->kernel);
  const auto [found, fresh] = choices.by_kernel.try_emplace(digest.key());
  ChosenOnce& out = found->second;
  if (fresh) out.variants = variants;
  if (fresh && variants.size() > 1)
    out.cut = fastest_cut(unit, variants, std::exchange(first, {}), out.transposes);
  else if (fresh)
    out.cut.fs = {0}, out.transposes = true;  // timed beside the other turners
  if (others_transpose && out.transposes && !out.transposed)
    out.transposed = choose_transpose_engine(
        unit, out, fresh && first ? std::move(first) : record_trial(unit, variants[out.cut.best]));
  choices.by_unit.emplace(like, out);
  return out.of(unit_text(unit), others_transpose);
}

Digest::Key Lowering::key_of(const Unit& unit, const std::vector<Choice>& variants) {
  UnitKey key(unit, store_, rec_.kernel().program());
  for (const Choice& variant : variants) key.add(variant.text());
  const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
  key.add(uint64_t(wants_transposed(node)) << 1 | uint64_t(done_.count(&node)));
  if (const auto as = written_as_.find(unit.product ? unit.product : unit.single); as != written_as_.end()) {
    key.add(as->second);
    key.add(uint64_t(wants_transposed(*as->second)));
  }
  return key.key();
}

Comparison Lowering::fastest_cut(const Unit& unit, const std::vector<Choice>& variants, std::optional<Trial> first,
                                 bool& transposes) {
  std::vector<std::optional<Trial>> all;
  all.push_back(std::move(first));
  for (size_t i = 1; i < variants.size(); ++i) all.push_back(record_trial(unit, variants[i]));
  std::vector<bool> transposed_by;
  for (const auto& variant : all) transposed_by.push_back(variant && variant->transposes());
  const Comparison out = fastest(std::move(all), rec_.chip(), options_.timer);
  transposes = transposed_by[out.best];
  return out;
}

// alone: with its fastest cut, transposed by the tensor engine.
Chosen Lowering::choose_transpose_engine(const Unit& unit, const ChosenOnce& cuts, std::optional<Trial> alone) {
  Chosen chosen{{}, cuts.variants, cuts.cut};
  const Choice cut = chosen.taken();
  std::vector<std::optional<Trial>> all;
  all.push_back(std::move(alone));
  const size_t first = chosen.variants.size();
  for (TransposeEngine by : {TransposeEngine::dma, TransposeEngine::vector}) {
    chosen.variants.push_back(cut);
    chosen.variants.back().transpose_engine = by;
    all.push_back(record_trial(unit, chosen.variants.back()));
  }
  const Comparison comparison = fastest(std::move(all), rec_.chip(), options_.timer);
  chosen.comparison.fs[chosen.comparison.best] = comparison.fs[0];
  chosen.comparison.fs.insert(chosen.comparison.fs.end(), comparison.fs.begin() + 1, comparison.fs.end());
  if (comparison.best) chosen.comparison.best = first + comparison.best - 1;
  return chosen;
}

std::vector<Choice> Lowering::variants_of(const Unit& unit) {
  const ir::Node* const dot = unit.product ? unit.product : unit.single;
  if (!dot && unit.is_loop()) return loop_variants(rec_, store_, unit);
  if (unit.attention || !dot || dot->op != op::dot_general) return {Choice()};
  const ir::Node& out = unit.product && !unit.roots.empty() ? *unit.roots[0] : *dot;
  return dot_variants(rec_, store_, *dot, wants_transposed(out), options_.dots);
}

// The unit alone on a recorder of its own; what it reads lies there as it does here.
std::optional<Trial> Lowering::record_trial(const Unit& unit, const Choice& variant) {
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
  Recorder rec("", rec_.chip(), thresholds::choose::kTimedMax);
  Store store(rec);
  std::swap(rec_, rec), store_.swap(store);
  store_.choice = variant;
  const arch::Program& here = rec.kernel().program();
  std::vector<uint32_t> made;  // tensors of the iteration in hand that another unit made
  const auto transposed_by = [&] {
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
  transposed_by();
  Trial out;
  if (!made.empty() && rec_.insn_count() && rec_.insn_count() < thresholds::choose::kLong && !rec_.error()) {
    out.alone = rec_.kernel();
    const size_t first = rec_.insn_count();
    transposed_by();
    wait_for(rec_.kernel(), first, made);
  }
  std::swap(rec_, rec), store_.swap(store);
  if (rec.error()) return std::nullopt;
  out.kernel = std::move(rec.kernel());
  return out;
}

}  // namespace trine::compile::device
