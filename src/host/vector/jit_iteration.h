// The iterations of a small loop as one function: machine code of loop programs is called, few bytes are moved and the
// next iteration begins without a way back to C++. Addresses lie in a table of words, so that the code serves every
// run. Invariant: what it does is what its steps do, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "host/move.h"

namespace trine::host {

class IterationCode {
 public:
  enum class Kind : uint8_t { code, move, function };
  // What is the same in every run.
  struct Step {
    Kind kind = Kind::function;
    const void* entry = nullptr;                            // of code: LoopCall::inner()
    bool is_slice = false, is_wide = false, drops = false;  // of a move, and its other fields
    int32_t most = 0;
    int64_t stride = 0, bytes = 0;

    bool operator==(const Step&) const = default;
  };
  static Step step_of(const ShortMove& move);

  // The words of an iteration: where it says whether to go on, then kStepWords for each step.
  // Of code: its words. Of a move: index, to, from. Of a function: an int (*)(void*), which gives 0 if all is well,
  // and what it is called with.
  static constexpr size_t kStepWords = 3;
  using Words = std::vector<int64_t>;

  // Null where no such code can be made.
  static std::shared_ptr<const IterationCode> make(std::vector<Step> steps);
  virtual ~IterationCode() = default;

  const std::vector<Step>& steps() const { return steps_; }

  enum class End : uint8_t { done, stopped, failed };  // stopped: stop_point() has something to say
  struct Outcome {
    End end = End::done;
    bool is_odd = false;  // so many iterations
  };
  // Iterations of `first` and `second` by turns.
  Outcome run(const Words& first, const Words& second) const;

 protected:
  explicit IterationCode(std::vector<Step> steps) : steps_(std::move(steps)) {}

 private:
  virtual int enter(const int64_t* first, const int64_t* second) const = 0;

  const std::vector<Step> steps_;
};

}  // namespace trine::host
