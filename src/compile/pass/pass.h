// Passes: what the compiler does between an imported graph and what runs, as tables of rows. A pipeline is one table
// over one kind of state; `trine compile`'s --print-after, --stop-after, --verify-each, --time-passes and --list-passes
// read these tables and nothing else. Not what a pass does: that is the file of its name.
// Invariant: a pass sees its state alone, so whoever observes changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::compile {

struct PassSize {
  std::string_view unit = {};  // "ops", "instructions", "bytes"
  int64_t count = 0;
};

// What a pass leaves, to look at: how large it is, its text, and whether it is well formed.
template <class State>
struct PassForm {
  std::string_view name = {};  // "graph"
  std::vector<PassSize> (*sizes)(const State&) = nullptr;
  std::string (*text)(const State&) = nullptr;
  Result<void> (*verify)(const State&) = nullptr;  // (optional)
};

template <class State>
using PassFunction = Result<void>(State&);

template <class State>
struct Pass {
  std::string_view name = {};  // unique over all pipelines
  PassFunction<State>* run = nullptr;
  std::string_view needs = {}, leaves = {};  // what is true of the state before and after it, as words
  const PassForm<State>* form = nullptr;
  std::string_view help = {};               // one line
  bool (*applies)(const State&) = nullptr;  // (optional) else it is left out
  bool is_stage = false;                    // whoever shows progress shows a line after it
};

template <class State>
struct Pipeline {
  std::string_view name = {};
  std::span<const Pass<State>> passes = {};
  // (optional) After a pass that failed: takes the state back to what an earlier pass was given, and names that pass;
  // the pipeline goes on after it. Empty: the failure stands.
  std::string_view (*retreat)(State&, std::string_view failed) = nullptr;
};

// What there is to see after a pass.
struct PassReport {
  std::string_view pipeline = {}, pass = {};
  bool is_stage = false;
  double seconds = 0;
  std::vector<PassSize> sizes = {};

  std::string summary() const;  // "5 streams, 1,204 instructions"
};

struct PassObserver {
  using Text = std::function<std::string()>;
  // Called after each pass; false: stop there, with Code::cancelled.
  std::function<bool(const PassReport& report, const Text& text)> after = {};
  bool stages_only = false;  // it is called after stages alone
  bool verify_each = false;  // after each pass: refuse what is not well formed

  bool sees_all() const { return verify_each || (after && !stages_only); }
};

// The verifier's error, with the pass that left what it refuses: "after pass decompose: ".
Error refused_after(std::string_view pass, const Error& error);

template <class State>
Result<void> observe(const Pipeline<State>& pipeline, const Pass<State>& pass, const State& state, double seconds,
                     const PassObserver& observer) {
  if (observer.verify_each && pass.form->verify)
    if (auto sound = pass.form->verify(state); !sound) return refused_after(pass.name, sound.error());
  if (!observer.after || (observer.stages_only && !pass.is_stage)) return {};
  const PassReport report{pipeline.name, pass.name, pass.is_stage, seconds, pass.form->sizes(state)};
  if (observer.after(report, [&] { return pass.form->text(state); })) return {};
  return fail(Code::cancelled, std::string("stopped after ").append(pass.name));
}

template <class State>
Result<void> run_passes(const Pipeline<State>& pipeline, State& state, const PassObserver& observer = {}) {
  using Clock = std::chrono::steady_clock;
  const auto passes = pipeline.passes;
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass<State>& pass = passes[i];
    if (pass.applies && !pass.applies(state)) continue;
    const auto begin = observer.after ? Clock::now() : Clock::time_point();
    if (auto done = pass.run(state); !done) {
      const std::string_view back = pipeline.retreat ? pipeline.retreat(state, pass.name) : std::string_view();
      if (back.empty()) return done.error();
      while (passes[i].name != back) --i;
      continue;
    }
    const double seconds = observer.after ? std::chrono::duration<double>(Clock::now() - begin).count() : 0;
    TRY(observe(pipeline, pass, state, seconds, observer));
  }
  return {};
}

}  // namespace trine::compile
