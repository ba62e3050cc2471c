// Stopping work that takes too long: by an interrupt (Ctrl-C) or past a limit. Loops that may be long pass
// stop_point(), which throws; the faces, and whoever runs a program, turn that and want of memory into an Error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "base/result.h"

namespace trine {

// What a program may take. 0: no limit.
struct Limits {
  double compile_seconds = 0, run_seconds = 0;
  int64_t ops = int64_t{1} << 18;  // of a program, calls written out
  int64_t host_bytes = 0;          // of this machine, for what virtual devices hold
};
const Limits& limits();  // the process's
void set_limits(const Limits& limits);

struct Stopped {
  Error error;
};

uint32_t interrupts();   // so many there have been
void interrupt();        // one more, as Ctrl-C
void take_interrupts();  // SIGINT is one too from now on; where nothing handles it, it ends the process as before

// Work of this thread that can be stopped while it lives: by an interrupt after `since`, or past its seconds.
class Work {
 public:
  // what: "compiling, by TRINE_COMPILE_SECONDS"
  explicit Work(double seconds = 0, std::string_view what = {}, uint32_t since = interrupts());
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void check() const;  // throws

 private:
  using Clock = std::chrono::steady_clock;
  const Work* outer_;
  uint32_t since_;
  double seconds_;
  std::string_view what_;
  Clock::time_point end_;
};

extern std::atomic<uint32_t> stop_causes;  // interrupts there were, and limits of time there are
void stop_if_due();
inline void stop_point() {
  if (stop_causes.load(std::memory_order_relaxed)) stop_if_due();
}

Failure out_of_host_memory();

// What `body` gives, a Result; what it throws, as an Error.
template <class Body>
auto without_throwing(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Stopped& s) {
    return s.error;
  } catch (const std::bad_alloc&) {
    return out_of_host_memory();
  } catch (const std::length_error&) {
    return out_of_host_memory();
  } catch (const std::system_error& e) {  // a thread that cannot be had
    return fail(Code::io, e.what());
  }
}

}  // namespace trine
