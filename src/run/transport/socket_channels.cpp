// Connections, and poll; see socket_channels.h.
#include "run/transport/socket_channels.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "run/devices/sockets.h"

namespace trine::run {

namespace {

constexpr char kLeft = 'l', kBroken = 'b';

int ms_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return int(std::clamp<int64_t>(left, 0, 1 << 30));
}

// The two connections of a rank, as callers name themselves.
int caller_number(int rank, bool is_control) { return 2 * rank + int(is_control); }

}  // namespace

SocketChannels::SocketChannels(int rank, std::vector<int> numbers)
    : rank_(rank), numbers_(std::move(numbers)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t r = 0; r < numbers_.size(); ++r) peers_.push_back(std::make_unique<Peer>());
}

SocketChannels::~SocketChannels() {
  leave();
  for (const auto& peer : peers_)
    for (const int socket : {peer->data, peer->control})
      if (socket >= 0) close(socket);
  close(wakeup_);
}

Result<std::unique_ptr<SocketChannels>> SocketChannels::connect(Board& board, int rank, std::vector<int> numbers,
                                                                const std::string& address,
                                                                Clock::time_point deadline) {
  std::unique_ptr<SocketChannels> out(new SocketChannels(rank, std::move(numbers)));
  TRY(out->connect_all(board, address, deadline));
  return out;
}

// Each rank calls those before it and is called by those after it.
Result<void> SocketChannels::connect_all(Board& board, const std::string& address, Clock::time_point deadline) {
  Listener listener = TRY(Listener::open(rank_, address));
  TRY(board.put(cat("address/", rank_), listener.text()));
  for (int r = 0; r < rank_; ++r) {
    const std::string other = TRY(board.get(cat("address/", r), ms_until(deadline)));
    for (const bool is_control : {false, true})
      connection(r, is_control) = TRY(call(other, r, caller_number(rank_, is_control), ms_until(deadline)));
  }
  for (int left = 2 * (ranks() - 1 - rank_); left > 0;) {
    const auto caller = listener.accept(caller_number(rank_, true), 2 * ranks(), ms_until(deadline));
    if (!caller)
      return fail(Code::io, cat("rank ", number(rank_), " waits for ", left, " connections; none came in time"));
    int& socket = connection(caller->process / 2, caller->process % 2 != 0);
    if (socket >= 0) {
      close(caller->socket);
      continue;
    }
    socket = caller->socket;
    --left;
  }
  return {};
}

size_t SocketChannels::write(int to, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = send(peers_[size_t(to)]->data, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return count > 0 ? size_t(count) : 0;
}

size_t SocketChannels::read(int from, std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  Peer& peer = *peers_[size_t(from)];
  const ssize_t count = recv(peer.data, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) peer.is_read_over = true;
  return count > 0 ? size_t(count) : 0;
}

void SocketChannels::expect(int rank, bool to_read, bool to_write) {
  peers_[size_t(rank)]->to_read = to_read;
  peers_[size_t(rank)]->to_write = to_write;
}

void SocketChannels::wait(uint32_t seen, std::chrono::milliseconds most) {
  if (news_.load() != seen) return;
  std::vector<pollfd> polled{{.fd = wakeup_, .events = POLLIN, .revents = 0}};
  for (const auto& peer : peers_) {
    const bool is_there = !peer->has_ended.load();
    const short events = short((peer->to_read && !peer->is_read_over ? POLLIN : 0) |  //
                               (peer->to_write && is_there ? POLLOUT : 0));
    polled.push_back({.fd = is_there ? peer->control : -1, .events = POLLIN, .revents = 0});
    polled.push_back({.fd = events ? peer->data : -1, .events = events, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), int(most.count())) <= 0) return;
  uint64_t count = 0;
  if (polled[0].revents && ::read(wakeup_, &count, sizeof(count)) < 0) return;
  for (size_t r = 0; r < peers_.size(); ++r)
    if (polled[1 + 2 * r].revents) hear(*peers_[r]);
}

// Each thing it says is a letter and a text, up to a zero.
void SocketChannels::hear(Peer& peer) {
  char bytes[4096];
  const ssize_t count = recv(peer.control, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN)) peer.has_ended = true;
  if (count <= 0) return;
  peer.heard.append(bytes, size_t(count));
  for (size_t end; (end = peer.heard.find('\0')) != std::string::npos; peer.heard.erase(0, end + 1)) {
    if (peer.heard[0] == kLeft) peer.has_left = true;
    if (peer.heard[0] != kBroken) continue;
    std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = peer.heard.substr(1, end - 1);
    is_broken_ = true;
  }
}

void SocketChannels::wake() {
  ++news_;
  const uint64_t one = 1;
  (void)!::write(wakeup_, &one, sizeof(one));
}

std::string SocketChannels::gone(int rank, bool is_send) const {
  const Peer& peer = *peers_[size_t(rank)];
  if (!is_send && !peer.is_read_over) return {};  // what it wrote before it went is still on its way
  return peer.has_left ? "has left the group" : peer.has_ended ? "has ended" : "";
}

void SocketChannels::notify(char kind, const std::string& text) {
  const std::string whole = kind + text + '\0';
  for (const auto& peer : peers_)
    if (peer->control >= 0) (void)!send(peer->control, whole.data(), whole.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Failure SocketChannels::break_with(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (!why_.empty()) return fail(Code::io, why_);
    why_ = why;
    is_broken_ = true;
  }
  notify(kBroken, why.substr(0, 8000));
  wake();
  return fail(Code::io, why);
}

Failure SocketChannels::failure() const {
  std::lock_guard lock(mutex_);
  return fail(Code::io, why_);
}

void SocketChannels::leave() {
  notify(kLeft, "");
  for (const auto& peer : peers_)
    if (peer->data >= 0) shutdown(peer->data, SHUT_WR);
}

}  // namespace trine::run
