// Interrupts and limits; see stop.h.
#include "base/stop.h"

#include <csignal>

#include "base/text.h"

namespace trine {

namespace {

using Clock = std::chrono::steady_clock;

// Who handles the signal as well may want what runs now to end well: short work does.
constexpr auto kGrace = std::chrono::milliseconds(300);

std::atomic<uint32_t> interrupt_count = 0;
std::atomic<int64_t> interrupted_at = 0;  // of Clock
Limits process_limits;
thread_local const Work* innermost = nullptr;

struct sigaction before;  // whom the signal went to

void on_signal(int number, siginfo_t* info, void* context) {
  interrupt();
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_IGN && before.sa_handler != SIG_DFL)
    before.sa_handler(number);
}

}  // namespace

std::atomic<uint32_t> stop_causes = 0;

const Limits& limits() { return process_limits; }
void set_limits(const Limits& limits) { process_limits = limits; }

uint32_t interrupts() { return interrupt_count.load(std::memory_order_relaxed); }

void interrupt() {
  interrupted_at.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  interrupt_count.fetch_add(1, std::memory_order_release);
  stop_causes.fetch_add(1, std::memory_order_relaxed);
}

void take_interrupts() {
  struct sigaction now{};
  if (::sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool has_info = now.sa_flags & SA_SIGINFO;
  if (has_info ? now.sa_sigaction == on_signal : now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  before = now;
  now.sa_sigaction = on_signal;
  now.sa_flags |= SA_SIGINFO;
  ::sigaction(SIGINT, &now, nullptr);
}

Work::Work(double seconds, std::string_view what, uint32_t since)
    : outer_(innermost), since_(outer_ ? outer_->since_ : since), seconds_(seconds), what_(what) {
  if (seconds_ > 0) {
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    stop_causes.fetch_add(1, std::memory_order_relaxed);
  }
  innermost = this;
}

Work::~Work() {
  innermost = outer_;
  if (seconds_ > 0) stop_causes.fetch_sub(1, std::memory_order_relaxed);
}

void Work::check() const {
  const auto now = Clock::now();
  if (interrupt_count.load(std::memory_order_acquire) != since_ &&
      now.time_since_epoch().count() - interrupted_at.load(std::memory_order_relaxed) >
          std::chrono::duration_cast<Clock::duration>(kGrace).count())
    throw Stopped{fail(Code::cancelled, "interrupted")};
  for (const Work* w = this; w; w = w->outer_)
    if (w->seconds_ > 0 && now > w->end_)
      throw Stopped{fail(Code::out_of_range, cat("stopped after ", w->seconds_, " s of ", w->what_))};
}

void stop_if_due() {
  if (innermost) innermost->check();
}

Failure out_of_host_memory() {
  return fail(Code::out_of_memory, "this machine has too little memory left; give it more, or the program less");
}

}  // namespace trine
