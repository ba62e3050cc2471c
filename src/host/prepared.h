// What prepare() makes of a plan: for each step its kernel, and where its operands are.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "arch/plan/plan.h"
#include "host/gemm/packed.h"
#include "host/loops/loop.h"
#include "host/move.h"
#include "host/vector/jit_iteration.h"
#include "host/windows.h"

namespace trine::host {

class Prepared;

struct Operand {
  arch::SlotKind kind = arch::SlotKind::temporary;
  uint32_t index = 0;
  int64_t offset = 0;
  void* constant = nullptr;
  const arch::Slot* slot = nullptr;
  std::shared_ptr<PackedForms> packed_forms = {};  // of a constant
};

// A loop that is ready for its next run; execute.cpp knows what it is.
struct IdleRun {
  IdleRun() = default;
  IdleRun(const IdleRun&) = delete;
  IdleRun& operator=(const IdleRun&) = delete;
  virtual ~IdleRun() = default;
};
class IdleRuns {
 public:
  std::unique_ptr<IdleRun> take();  // null where there is none
  void put_back(std::unique_ptr<IdleRun> run);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<IdleRun>> runs_;
};

// The code of a loop's iterations, made when the first run finds it worth it.
class SharedIterations {
 public:
  // Of just these steps; null where there is none, or another run's steps are otherwise.
  std::shared_ptr<const IterationCode> of(std::vector<IterationCode::Step> steps);

 private:
  std::mutex mutex_;
  bool was_made_ = false;
  std::shared_ptr<const IterationCode> code_;
};

struct PreparedLoop {
  std::vector<bool> in_place = {};
  std::shared_ptr<const Prepared> cond = {}, body = {};
  std::shared_ptr<IdleRuns> idle = std::make_shared<IdleRuns>();
  std::shared_ptr<SharedIterations> iterations = std::make_shared<SharedIterations>();
};

struct PreparedCase {
  std::vector<std::shared_ptr<const Prepared>> branches = {};
};

// A multiply and what becomes of its tiles.
template <class What>
struct PreparedProduct {
  const What* what = nullptr;
  std::optional<LoopEpilogue> epilogue = {};
};

struct PreparedStep {
  std::variant<const arch::CallStep*, LoopKernel, PreparedProduct<arch::GemmStep>, PreparedProduct<arch::ConvStep>,
               const arch::AttentionStep*, Move, Windows, arch::CopyStep, PreparedLoop, PreparedCase,
               const arch::CollectiveStep*>
      what;
  std::vector<Operand> in = {}, out = {};
  uint32_t where = 0;
};

class Prepared {
 public:
  std::shared_ptr<const arch::HostPlan> plan;
  std::vector<PreparedStep> steps;
  std::vector<bool> by_forms_alone;  // per input
  bool multiplies = false;           // it, or a loop or branch in it, may ask for packed forms
};

}  // namespace trine::host
