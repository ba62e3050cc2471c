// The steps of a prepared plan, one after the other. Each kind of step has one function here or a kernel file.
#include "host/execute.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/stop.h"
#include "base/text.h"
#include "host/attention/attention.h"
#include "host/conv/conv_step.h"
#include "host/gemm/dot.h"
#include "host/prepared.h"
#include "host/scratch.h"

namespace trine::host {

using arch::HostPlan;
using arch::SlotKind;

namespace {

// A multiply on memory that is known: views, and the epilogue's operands.
class ProductCall {
 public:
  // `data(operand)`: where it lies.
  template <class What, class Data>
  ProductCall(const PreparedProduct<What>& product, const PreparedStep& step, PackedForms* packed_forms, Data&& data)
      : packed_forms_(packed_forms) {
    const auto view = [&](const Operand& p) { return TensorView{p.slot->dtype, p.slot->dims, data(p)}; };
    const bool keeps = !product.epilogue || product.what->epilogue.keeps_product;
    in_ = {view(step.in[0]), view(step.in[1])};
    if (keeps) out_ = view(step.out[0]);
    if (!product.epilogue) return;
    // The program's operands are the product, then the step's inputs and outputs that the multiply itself has no use
    // for.
    operands_.reserve(step.in.size() + step.out.size());
    operands_.push_back(nullptr);
    for (size_t i = 2; i < step.in.size(); ++i) operands_.push_back(data(step.in[i]));
    for (size_t i = keeps; i < step.out.size(); ++i) operands_.push_back(data(step.out[i]));
    call_ = {&*product.epilogue, operands_};
  }
  ProductCall(const ProductCall&) = delete;  // the call points into it
  ProductCall& operator=(const ProductCall&) = delete;

  Result<void> run(const PreparedProduct<arch::GemmStep>& gemm) {
    return run_dot(*gemm.what, in_, out_, packed_forms_, epilogue());
  }
  Result<void> run(const PreparedProduct<arch::ConvStep>& conv) {
    return run_conv(*conv.what, in_, out_, packed_forms_, epilogue());
  }

 private:
  Epilogue epilogue() { return call_.epilogue ? Epilogue{run_epilogue, &call_} : Epilogue{}; }

  std::array<TensorView, 2> in_;
  TensorView out_ = {};
  PackedForms* packed_forms_;
  std::vector<void*> operands_ = {};
  LoopEpilogueCall call_ = {};
};

class Run {
 public:
  Run(const Prepared& prepared, Frame frame, std::byte* arena) : prepared_(prepared), frame_(frame), arena_(arena) {}

  Result<void> all() {
    for (const PreparedStep& step : prepared_.steps) TRY(one(step));
    return {};
  }
  Result<void> one(const PreparedStep& step) {
    auto done = std::visit([&](const auto& what) { return run(what, step); }, step.what);
    if (!done) return located(done.error(), step);
    return {};
  }
  void* data(const Operand& operand) const {
    switch (operand.kind) {
      case SlotKind::input:
        return const_cast<void*>(frame_.inputs[operand.index]);
      case SlotKind::output:
        return frame_.outputs[operand.index];
      case SlotKind::constant:
        return operand.constant;
      case SlotKind::temporary:
        return arena_ + operand.offset;
    }
    return nullptr;
  }
  Error located(Error error, const PreparedStep& step) const {
    if (error.where.empty()) error.where = prepared_.plan->locations[step.where];
    return error;
  }
  std::vector<void*> pointers(std::span<const Operand> operands) const {
    std::vector<void*> out;
    out.reserve(operands.size());
    for (const Operand& p : operands) out.push_back(data(p));
    return out;
  }
  std::vector<PackedForms*> packed_forms_of(std::span<const Operand> operands) const {
    std::vector<PackedForms*> out;
    for (const Operand& p : operands) out.push_back(packed_forms(p));
    return out;
  }
  PackedForms* packed_forms(const Operand& operand) const {
    const bool has = operand.kind == SlotKind::input && operand.index < frame_.packed_forms.size();
    return has ? frame_.packed_forms[operand.index] : operand.packed_forms.get();
  }

 private:
  TensorView view(const Operand& p) const { return {p.slot->dtype, p.slot->dims, data(p)}; }
  std::vector<TensorView> views(const std::vector<Operand>& operands) const {
    std::vector<TensorView> out;
    out.reserve(operands.size());
    for (const Operand& p : operands) out.push_back(view(p));
    return out;
  }

  Result<void> run(const arch::CallStep* call, const PreparedStep& step) {
    return call->run(views(step.in), views(step.out));
  }
  Result<void> run(const LoopKernel& kernel, const PreparedStep& step) {
    std::array<void*, 32> few;
    const size_t count = step.in.size() + step.out.size();
    std::vector<void*> many(count > few.size() ? count : 0);
    std::span<void*> operands = many.empty() ? std::span(few).first(count) : std::span(many);
    for (size_t i = 0; i < step.in.size(); ++i) operands[i] = data(step.in[i]);
    for (size_t i = 0; i < step.out.size(); ++i) operands[step.in.size() + i] = data(step.out[i]);
    host::run(kernel, operands);
    return {};
  }
  template <class What>
  Result<void> run(const PreparedProduct<What>& product, const PreparedStep& step) {
    return ProductCall(product, step, packed_forms(step.in[1]), [&](const Operand& p) { return data(p); }).run(product);
  }
  Result<void> run(const arch::AttentionStep* attention, const PreparedStep& step) {
    return run_attention(*attention, views(step.in), view(step.out[0]));
  }
  Result<void> run(const Move& move, const PreparedStep& step) {
    std::array<void*, 16> few;
    std::vector<void*> many;
    std::span<void*> in = std::span(few).first(std::min(few.size(), step.in.size()));
    if (step.in.size() > few.size()) {
      many.resize(step.in.size());
      in = many;
    }
    for (size_t i = 0; i < step.in.size(); ++i) in[i] = data(step.in[i]);
    move.run(in, data(step.out[0]));
    return {};
  }
  Result<void> run(const Windows& windows, const PreparedStep& step) {
    std::array<void*, 4> in;
    for (size_t i = 0; i < step.in.size(); ++i) in[i] = data(step.in[i]);
    windows.run(std::span(in).first(step.in.size()), data(step.out[0]));
    return {};
  }
  Result<void> run(const arch::CopyStep&, const PreparedStep& step) {
    void *from = data(step.in[0]), *to = data(step.out[0]);
    if (from != to) std::memcpy(to, from, step.in[0].slot->bytes());
    return {};
  }
  Result<void> run(const PreparedLoop& loop, const PreparedStep& step);
  Result<void> run(const PreparedCase& choice, const PreparedStep& step) {
    const size_t last = choice.branches.size() - 1;
    const int32_t index = *static_cast<const int32_t*>(data(step.in[0]));
    const Prepared& branch = *choice.branches[index < 0 || size_t(index) > last ? last : size_t(index)];
    const std::vector<void*> inputs = pointers(std::span(step.in).subspan(1)), outputs = pointers(step.out);
    const std::vector<const void*> read(inputs.begin(), inputs.end());
    return execute(branch, {.inputs = read, .outputs = outputs, .collectives = frame_.collectives});
  }
  Result<void> run(const arch::CollectiveStep* what, const PreparedStep& step) {
    const std::vector<TensorView> in = views(step.in), out = views(step.out);
    if (frame_.collectives) return frame_.collectives->join(*what, in, out);
    const bool unsent = what->kind == arch::CollectiveKind::permute && what->pairs.empty();  // nobody's target: zeros
    for (size_t i = 0; i < out.size(); ++i) {
      if (unsent) {
        std::memset(out[i].data, 0, out[i].bytes());
      } else if (i < in.size() && in[i].bytes() == out[i].bytes()) {
        std::memcpy(out[i].data, in[i].data, in[i].bytes());
      } else if (in.empty()) {
        std::memset(out[i].data, 0, out[i].bytes());  // partition_id and replica_id of a lone device
      } else {
        return fail(Code::invalid, "a collective of several devices in a program that runs on one");
      }
    }
    return {};
  }

  const Prepared& prepared_;
  const Frame frame_;
  std::byte* arena_;
};

class LoopRun;

// A plan's steps on memory that stays where it is, for many runs: pointers are found once.
class Wired {
 public:
  Wired(const Prepared& prepared, const Frame& frame, std::byte* arena);
  ~Wired();

  Result<void> all();

  // For machine code: what its steps are, and the words of an iteration that says at `go` whether it goes on.
  std::vector<IterationCode::Step> code_steps() const;
  IterationCode::Words code_words(const uint8_t* go);
  Result<void> failure();  // why code that called this ended; throws what was thrown

 private:
  struct WiredMove {
    const Move* what;
    std::vector<void*> in;
    void* out;
  };
  struct WiredWindows {
    const Windows* what;
    std::vector<void*> in;
    void* out;
  };
  struct WiredGemm {
    const PreparedProduct<arch::GemmStep>* what;
    const PreparedStep* step;
    std::unique_ptr<ProductCall> call;
  };
  // Branches are wired when they are first taken.
  class WiredCase {
   public:
    WiredCase(const PreparedCase& choice, const std::vector<void*>& in, std::vector<void*> out,
              Collectives* collectives)
        : index_(static_cast<const int32_t*>(in[0])),
          in_(in.begin() + 1, in.end()),
          out_(std::move(out)),
          collectives_(collectives) {
      for (const auto& branch : choice.branches) branches_.push_back({branch.get()});
    }
    Result<void> run() {
      const size_t last = branches_.size() - 1;
      Branch& branch = branches_[*index_ < 0 || size_t(*index_) > last ? last : size_t(*index_)];
      if (!branch.wired) {
        branch.arena = std::make_unique<Scratch>(size_t(branch.prepared->plan->arena_bytes));
        branch.wired = std::make_unique<Wired>(
            *branch.prepared, Frame{.inputs = in_, .outputs = out_, .collectives = collectives_}, branch.arena->as<>());
      }
      return branch.wired->all();
    }

   private:
    struct Branch {
      const Prepared* prepared = nullptr;
      std::unique_ptr<Scratch> arena = {};
      std::unique_ptr<Wired> wired = {};
    };
    const int32_t* index_;
    std::vector<const void*> in_;
    std::vector<void*> out_;
    Collectives* collectives_;
    std::vector<Branch> branches_;
  };
  using Step = std::variant<LoopCall, ShortMove, WiredMove, WiredWindows, WiredGemm, std::unique_ptr<WiredCase>,
                            std::unique_ptr<LoopRun>, const PreparedStep*>;

  // A step as a function of machine code, through which nothing is thrown.
  struct Hook {
    Wired* wired;
    const Step* step;
  };
  static int run_hook(void* hook) noexcept;
  Result<void> one(const Step& step);

  static constexpr size_t kLoopBytesMax = 1 << 18;  // of a loop inside: what larger ones take is given back in between

  static size_t scratch_bytes(const Prepared& prepared) {
    size_t sum = 0;
    for (const PreparedStep& step : prepared.steps)
      if (const auto* kernel = std::get_if<LoopKernel>(&step.what)) sum += LoopCall::scratch_bytes(*kernel);
    return sum;
  }

  Run run_;
  Scratch scratch_;
  std::vector<Step> steps_;
  std::vector<Hook> hooks_ = {};
  std::optional<Error> error_ = {};
  std::exception_ptr thrown_ = {};
};

// A loop on memory that stays where it is, for one run or many.
// Carried values live in the outputs and in a second set; iterations go from one to the other. Those that the body
// writes in place have one home, the output, from the start.
class LoopRun {
 public:
  // `packed_forms`: per input, its packed forms where it never changes, or null.
  LoopRun(const PreparedLoop& loop, const PreparedStep& step, const std::vector<void*>& in, std::vector<void*> out,
          std::vector<PackedForms*> packed_forms, Collectives* collectives)
      : loop_(loop),
        step_(step),
        in_(in.begin(), in.end()),
        own_(loop.body->multiplies ? step.in.size() - step.out.size() : 0),
        packed_forms_(std::move(packed_forms)),
        collectives_(collectives),
        second_(second_bytes(loop, step)),
        cond_arena_(size_t(loop.cond->plan->arena_bytes)),
        body_arena_(size_t(loop.body->plan->arena_bytes)),
        sets_{std::move(out), {}} {
    std::byte* at = second_.as<>();
    for (size_t i = 0; i < step.out.size(); ++i) {
      sets_[1].push_back(loop.in_place[i] ? sets_[0][i] : at);
      if (!loop.in_place[i]) at += room(step.out[i]);
    }
    inputs_ = in_;
    for (size_t i = 0; i < step.out.size(); ++i)
      if (loop.in_place[i]) inputs_[i] = sets_[0][i];
    for (int to = 0; to < 2; ++to) {
      sources_[to].assign(sets_[1 - to].begin(), sets_[1 - to].end());
      sources_[to].insert(sources_[to].end(), inputs_.begin() + ptrdiff_t(step.out.size()), inputs_.end());
    }
    for (auto& set : sets_) set.push_back(&go_);
    // What does not change from iteration to iteration keeps its packed forms for the length of a run, or longer.
    for (size_t i = step.out.size(); i < step.in.size() && !own_.empty(); ++i)
      if (!packed_forms_[i]) packed_forms_[i] = &own_[i - step.out.size()].emplace();
    std::fill_n(packed_forms_.begin(), step.out.size(), nullptr);
  }
  static size_t scratch_bytes(const PreparedLoop& loop, const PreparedStep& step) {
    return second_bytes(loop, step) + size_t(loop.cond->plan->arena_bytes + loop.body->plan->arena_bytes);
  }

  Result<void> run() {
    ++runs_;
    for (size_t i = 0; i < step_.out.size(); ++i)
      if (loop_.in_place[i]) copy(i, in_[i], sets_[0][i]);
    for (auto& forms : own_) forms.emplace();
    TRY(once(*loop_.cond, {.inputs = inputs_, .outputs = go_at_, .collectives = collectives_}, cond_arena_, cond_));
    if (!go_) {
      for (size_t i = 0; i < step_.out.size(); ++i) copy(i, inputs_[i], sets_[0][i]);
      return {};
    }
    TRY(once(*loop_.body, frame(inputs_, 0), body_arena_, first_));
    const bool alternates = second_.as<>() != nullptr;
    int last = 0;  // the set written last
    while (go_) {
      stop_point();
      const int other = last;
      last = alternates ? 1 - last : 0;
      if (!iterations_[last])
        iterations_[last] = std::make_unique<Wired>(*loop_.body, frame(sources_[last], last), body_arena_.as<>());
      if (++iterations_so_far_ > kUncoded) find_code(alternates);
      if (!code_) {
        TRY(iterations_[last]->all());
        continue;
      }
      const auto [end, is_odd] = code_->run(words_[last], words_[alternates ? other : last]);
      if (end == IterationCode::End::failed)
        for (const auto& iteration : iterations_)
          if (iteration) TRY(iteration->failure());
      if (!is_odd && alternates) last = other;
    }
    for (size_t i = 0; last == 1 && i < step_.out.size(); ++i)
      if (!loop_.in_place[i]) copy(i, sets_[1][i], sets_[0][i]);
    return {};
  }

 private:
  static int64_t room(const Operand& operand) { return int64_t(operand.slot->bytes() + 63) / 64 * 64; }
  static size_t second_bytes(const PreparedLoop& loop, const PreparedStep& step) {
    int64_t size = 0;
    for (size_t i = 0; i < step.out.size(); ++i)
      if (!loop.in_place[i]) size += room(step.out[i]);
    return size_t(size);
  }
  void copy(size_t i, const void* from, void* to) const {
    if (from != to) std::memcpy(to, from, step_.out[i].slot->bytes());
  }
  void find_code(bool alternates) {
    if (has_looked_ || (alternates && !(iterations_[0] && iterations_[1]))) return;
    has_looked_ = true;
    std::vector<IterationCode::Step> steps = iterations_[0]->code_steps();
    if (alternates && iterations_[1]->code_steps() != steps) return;
    code_ = loop_.iterations->of(std::move(steps));
    for (int to = 0; code_ && to < (alternates ? 2 : 1); ++to) words_[to] = iterations_[to]->code_words(&go_);
  }
  Frame frame(const std::vector<const void*>& from, int to) const {
    return {.inputs = from, .outputs = sets_[to], .packed_forms = packed_forms_, .collectives = collectives_};
  }
  // What happens once in a run is wired from the second run on.
  Result<void> once(const Prepared& plan, const Frame& frame, const Scratch& arena, std::unique_ptr<Wired>& wired) {
    if (runs_ == 1) return Run(plan, frame, arena.as<>()).all();
    if (!wired) wired = std::make_unique<Wired>(plan, frame, arena.as<>());
    return wired->all();
  }

  const PreparedLoop& loop_;
  const PreparedStep& step_;
  const std::vector<const void*> in_;
  std::vector<std::optional<PackedForms>> own_;  // stay where they are
  std::vector<PackedForms*> packed_forms_;       // per input
  Collectives* const collectives_;
  const Scratch second_, cond_arena_, body_arena_;
  std::vector<void*> sets_[2];                    // and where the body says whether to go on
  std::vector<const void*> inputs_, sources_[2];  // of the first iteration; of iterations that write set 0 and set 1
  uint8_t go_ = 0;
  void* go_at_[1] = {&go_};
  int64_t runs_ = 0;
  std::unique_ptr<Wired> cond_ = {}, first_ = {}, iterations_[2] = {};
  static constexpr int64_t kUncoded = 8;  // iterations of all runs: with fewer a loop is over before its code is made
  int64_t iterations_so_far_ = 0;
  bool has_looked_ = false;  // for code
  std::shared_ptr<const IterationCode> code_ = {};
  IterationCode::Words words_[2] = {};
};

Wired::Wired(const Prepared& prepared, const Frame& frame, std::byte* arena)
    : run_(prepared, frame, arena), scratch_(scratch_bytes(prepared)) {
  std::byte* at = scratch_.as<>();
  steps_.reserve(prepared.steps.size());
  for (const PreparedStep& step : prepared.steps) {
    std::vector<void*> in = run_.pointers(step.in), out = run_.pointers(step.out);
    if (const auto* kernel = std::get_if<LoopKernel>(&step.what)) {
      in.insert(in.end(), out.begin(), out.end());
      steps_.push_back({LoopCall(*kernel, in, at)});
      at += LoopCall::scratch_bytes(*kernel);
    } else if (const auto* move = std::get_if<Move>(&step.what)) {
      if (const auto few = move->shortened(in, out[0])) {
        steps_.push_back({*few});
        continue;
      }
      steps_.push_back({WiredMove{move, std::move(in), out[0]}});
    } else if (const auto* windows = std::get_if<Windows>(&step.what)) {
      if (const auto few = windows->shortened(in, out[0])) {
        steps_.push_back({*few});
        continue;
      }
      steps_.push_back({WiredWindows{windows, std::move(in), out[0]}});
    } else if (const auto few = std::holds_alternative<arch::CopyStep>(step.what)
                                    ? short_copy(in[0], out[0], int64_t(step.in[0].slot->bytes()))
                                    : std::nullopt) {
      steps_.push_back({*few});
    } else if (const auto* gemm = std::get_if<PreparedProduct<arch::GemmStep>>(&step.what)) {
      auto call = std::make_unique<ProductCall>(*gemm, step, run_.packed_forms(step.in[1]),
                                                [&](const Operand& p) { return run_.data(p); });
      steps_.push_back({WiredGemm{gemm, &step, std::move(call)}});
    } else if (const auto* choice = std::get_if<PreparedCase>(&step.what)) {
      steps_.push_back({std::make_unique<WiredCase>(*choice, in, out, frame.collectives)});
    } else if (const auto* loop = std::get_if<PreparedLoop>(&step.what);
               loop && LoopRun::scratch_bytes(*loop, step) <= kLoopBytesMax) {
      steps_.push_back(
          {std::make_unique<LoopRun>(*loop, step, in, out, run_.packed_forms_of(step.in), frame.collectives)});
    } else {
      steps_.push_back({&step});
    }
  }
}

Wired::~Wired() = default;

Result<void> Wired::all() {
  for (const Step& step : steps_) TRY(one(step));
  return {};
}

Result<void> Wired::one(const Step& step) {
  if (const auto* call = std::get_if<LoopCall>(&step)) {
    call->run();
  } else if (const auto* few = std::get_if<ShortMove>(&step)) {
    few->run();
  } else if (const auto* move = std::get_if<WiredMove>(&step)) {
    move->what->run(move->in, move->out);
  } else if (const auto* windows = std::get_if<WiredWindows>(&step)) {
    windows->what->run(windows->in, windows->out);
  } else if (const auto* gemm = std::get_if<WiredGemm>(&step)) {
    auto done = gemm->call->run(*gemm->what);
    if (!done) return run_.located(done.error(), *gemm->step);
  } else if (const auto* choice = std::get_if<std::unique_ptr<WiredCase>>(&step)) {
    return (*choice)->run();
  } else if (const auto* loop = std::get_if<std::unique_ptr<LoopRun>>(&step)) {
    return (*loop)->run();
  } else {
    return run_.one(*std::get<const PreparedStep*>(step));
  }
  return {};
}

std::vector<IterationCode::Step> Wired::code_steps() const {
  std::vector<IterationCode::Step> out;
  for (const Step& step : steps_) {
    const auto* call = std::get_if<LoopCall>(&step);
    const auto* few = std::get_if<ShortMove>(&step);
    if (call && call->inner()) {
      out.push_back({.kind = IterationCode::Kind::code, .entry = call->inner()});
    } else if (few) {
      out.push_back(IterationCode::step_of(*few));
    } else {
      out.push_back({});
    }
  }
  return out;
}

IterationCode::Words Wired::code_words(const uint8_t* go) {
  const auto word = [](const void* at) { return int64_t(reinterpret_cast<intptr_t>(at)); };
  IterationCode::Words out = {word(go)};
  hooks_.clear();
  hooks_.reserve(steps_.size());  // they stay where they are
  for (const Step& step : steps_) {
    const auto* call = std::get_if<LoopCall>(&step);
    const auto* few = std::get_if<ShortMove>(&step);
    if (call && call->inner()) {
      out.insert(out.end(), {word(call->scratch()), 0, 0});
    } else if (few) {
      out.insert(out.end(), {word(few->index), word(few->to), word(few->from)});
    } else {
      hooks_.push_back({this, &step});
      out.insert(out.end(), {word(reinterpret_cast<const void*>(&run_hook)), word(&hooks_.back()), 0});
    }
  }
  return out;
}

int Wired::run_hook(void* hook) noexcept {
  const auto [wired, step] = *static_cast<Hook*>(hook);
  try {
    auto done = wired->one(*step);
    if (done) return 0;
    wired->error_ = done.error();
  } catch (...) {
    wired->thrown_ = std::current_exception();
  }
  return 1;
}

Result<void> Wired::failure() {
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (error_) return *std::exchange(error_, std::nullopt);
  return {};
}

// A loop on memory of its own, for runs of a program: what they hand over is copied, and all else stays wired.
class OwnLoop : public IdleRun {
 public:
  static constexpr size_t kBytesMax =
      1 << 15;  // that are copied; wiring a small loop takes as long as a few times that

  static size_t copied_bytes(const PreparedStep& step) {
    size_t sum = 0;
    for (const auto* side : {&step.in, &step.out})
      for (const Operand& p : *side) sum += p.kind == SlotKind::constant ? 0 : room(p);
    return sum;
  }

  OwnLoop(const PreparedLoop& loop, const PreparedStep& step) : step_(step), memory_(copied_bytes(step)) {
    std::byte* at = memory_.as<>();
    const auto own = [&](const std::vector<Operand>& operands) {
      std::vector<void*> out;
      for (const Operand& p : operands) {
        out.push_back(p.kind == SlotKind::constant ? p.constant : at);
        if (p.kind != SlotKind::constant) at += room(p);
      }
      return out;
    };
    in_ = own(step.in);
    out_ = own(step.out);
    std::vector<PackedForms*> forms;
    for (const Operand& p : step.in) forms.push_back(p.packed_forms.get());
    loop_ = std::make_unique<LoopRun>(loop, step, in_, out_, std::move(forms), nullptr);
  }

  Result<void> run(const Run& caller) {
    for (size_t i = 0; i < in_.size(); ++i)
      if (step_.in[i].kind != SlotKind::constant)
        std::memcpy(in_[i], caller.data(step_.in[i]), step_.in[i].slot->bytes());
    TRY(loop_->run());
    for (size_t i = 0; i < out_.size(); ++i)
      std::memcpy(caller.data(step_.out[i]), out_[i], step_.out[i].slot->bytes());
    return {};
  }

 private:
  static size_t room(const Operand& p) { return (p.slot->bytes() + 63) / 64 * 64; }

  const PreparedStep& step_;
  const Scratch memory_;
  std::vector<void*> in_, out_;
  std::unique_ptr<LoopRun> loop_;
};

Result<void> Run::run(const PreparedLoop& loop, const PreparedStep& step) {
  const bool is_small = LoopRun::scratch_bytes(loop, step) <= OwnLoop::kBytesMax;
  if (!frame_.collectives && is_small && OwnLoop::copied_bytes(step) <= OwnLoop::kBytesMax) {
    std::unique_ptr<IdleRun> own = loop.idle->take();
    if (!own) own = std::make_unique<OwnLoop>(loop, step);
    TRY(static_cast<OwnLoop&>(*own).run(*this));
    loop.idle->put_back(std::move(own));
    return {};
  }
  return LoopRun(loop, step, pointers(step.in), pointers(step.out), packed_forms_of(step.in), frame_.collectives).run();
}

}  // namespace

Result<void> execute(const Prepared& prepared, const Frame& frame) try {
  const Scratch arena{size_t(prepared.plan->arena_bytes)};
  return Run(prepared, frame, arena.as<>()).all();
} catch (const std::bad_alloc&) {
  return fail(Code::out_of_memory, cat("this machine has no memory left for a program's temporaries, ",
                                       with_unit_bytes(double(prepared.plan->arena_bytes))));
}

}  // namespace trine::host
