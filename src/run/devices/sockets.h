// Stream sockets between the processes of one job: Unix sockets inside a machine, TCP between machines, and a handshake
// by which each end proves that it belongs to the job. Nothing here waits for ever. What is sent over them is others'
// business: devices of JAX's processes (peers.h), ranks of torch's (transport/socket_channels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trine::run {

bool send_all(int socket, const void* data, size_t size);
bool receive_all(int socket, void* data, size_t size);

// Processes with the same text reach each other by names of this machine: one kernel, one network namespace.
std::string machine_identity();

// Where a process can be called. Invariant: both sockets are open while it lives.
class Listener {
 public:
  struct Caller {
    int socket = -1;  // the taker's
    int process = 0;
  };

  // `address`: of this machine, IPv4 or IPv6, that others try before its other ones; may be empty.
  static Result<Listener> open(int process, const std::string& address = {});
  Listener(Listener&& from) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  const std::string& text() const { return text_; }  // for call(): one word
  // The next process of `after` to `count - 1` that calls; callers that are none are sent away.
  Result<Caller> accept(int after, int count, int timeout_ms);

 private:
  Listener() = default;

  int process_ = 0, local_ = -1, network_ = -1;
  uint64_t secret_ = 0;
  std::string text_;
};

// Calls the process whose Listener has this text, in the name of `self`: by its name on this machine, else by each of
// its addresses. `answer_ms`: for the other to take the call.
constexpr int kAnswerMs = 5'000;
Result<int> call(const std::string& listener, int process, int self, int answer_ms = kAnswerMs);

}  // namespace trine::run
