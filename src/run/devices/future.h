// Future: something that will be ready or have failed; Promise sets it, once. Copies share one state.
// Callbacks run in the thread that sets the promise, or at once where it is set already; no lock is held meanwhile.
// A default Future is ready and costs nothing.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"

namespace trine::run {

class Future {
 public:
  using Callback = std::function<void(const Error*)>;  // null: no error

  Future() = default;  // ready
  static Future failed(Error error);

  bool is_plain() const { return !state_; }  // as a default one: ready, and nothing went wrong
  bool is_ready() const;
  const Error* error() const;  // null where it is not ready, or fine
  Result<void> wait() const;
  void on_ready(Callback callback) const;

 private:
  friend class Promise;
  struct State;
  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Promise {
 public:
  Promise();

  Future future() const { return Future(state_); }
  void set() const;
  void fail(Error error) const;
  void set(const Result<void>& result) const;

 private:
  std::shared_ptr<Future::State> state_;
};

}  // namespace trine::run
