// The state that a promise and its futures share.
#include "run/devices/future.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace trine::run {

struct Future::State {
  std::atomic<bool> ready = false;  // set last: whoever sees it may read `error` without the lock
  std::unique_ptr<const Error> error;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Callback> callbacks;

  void finish(std::unique_ptr<const Error> outcome) {
    std::vector<Callback> waiting;
    {
      std::lock_guard lock(mutex);
      CHECK(!ready.load(std::memory_order_relaxed), "a promise is set once");
      error = std::move(outcome);
      ready.store(true, std::memory_order_release);
      waiting.swap(callbacks);
      changed.notify_all();
    }
    for (Callback& callback : waiting) callback(error.get());
  }
};

Future Future::failed(Error error) {
  auto state = std::make_shared<State>();
  state->finish(std::make_unique<const Error>(std::move(error)));
  return Future(std::move(state));
}

bool Future::is_ready() const { return !state_ || state_->ready.load(std::memory_order_acquire); }

const Error* Future::error() const { return state_ && is_ready() ? state_->error.get() : nullptr; }

Result<void> Future::wait() const {
  if (!is_ready()) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->ready.load(std::memory_order_relaxed); });
  }
  if (const Error* e = error()) return *e;
  return {};
}

void Future::on_ready(Callback callback) const {
  if (!is_ready()) {
    std::lock_guard lock(state_->mutex);
    if (!state_->ready.load(std::memory_order_relaxed)) {
      state_->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback(error());
}

Promise::Promise() : state_(std::make_shared<Future::State>()) {}
void Promise::set() const { state_->finish(nullptr); }
void Promise::fail(Error error) const { state_->finish(std::make_unique<const Error>(std::move(error))); }
void Promise::set(const Result<void>& result) const {
  if (result)
    set();
  else
    fail(result.error());
}

}  // namespace trine::run
