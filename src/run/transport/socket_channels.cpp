// Connections, and poll; see socket_channels.h.
#include "run/transport/socket_channels.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr char kLeft = 'l', kBroken = 'b';

struct Hello {
  uint64_t token = 0;
  int32_t rank = 0, is_control = 0;
};

std::string system_text() { return std::strerror(errno); }

int ms_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return int(std::clamp<int64_t>(left, 0, 1 << 30));
}

bool wait_for(int socket, short events, Clock::time_point deadline) {
  pollfd p{.fd = socket, .events = events, .revents = 0};
  return poll(&p, 1, ms_until(deadline)) > 0;
}

// IPv4 or IPv6, by the text.
socklen_t read_address(const std::string& text, int port, sockaddr_storage& out) {
  auto* four = reinterpret_cast<sockaddr_in*>(&out);
  auto* six = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(uint16_t(port));
    return sizeof(sockaddr_in);
  }
  if (inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) != 1) return 0;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(uint16_t(port));
  return sizeof(sockaddr_in6);
}

struct Listener {
  int socket = -1, port = 0;
};

Result<Listener> listen_at(const std::string& address, int count) {
  sockaddr_storage at{};
  socklen_t size = read_address(address, 0, at);
  if (size == 0)
    return fail(Code::invalid, cat("\"", address, "\" is not the address of a host; expected an IP address"));
  const int out = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_open = out >= 0 && bind(out, reinterpret_cast<sockaddr*>(&at), size) == 0 && listen(out, count) == 0 &&
                       getsockname(out, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  if (is_open) return Listener{out, ntohs(reinterpret_cast<sockaddr_in*>(&at)->sin_port)};
  const Failure failure = fail(Code::io, cat("cannot listen at ", address, ": ", system_text()));
  if (out >= 0) close(out);
  return failure;
}

void set_fast(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Result<int> connect_to(const std::string& address, int port, const Hello& hello, Clock::time_point deadline) {
  sockaddr_storage at{};
  const socklen_t size = read_address(address, port, at);
  const int out = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = 0;
  socklen_t error_size = sizeof(error);
  bool is_open = out >= 0 && (::connect(out, reinterpret_cast<sockaddr*>(&at), size) == 0 || errno == EINPROGRESS);
  is_open = is_open && wait_for(out, POLLOUT, deadline) &&
            getsockopt(out, SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 && error == 0;
  if (is_open && send(out, &hello, sizeof(hello), MSG_NOSIGNAL) == ssize_t(sizeof(hello))) {
    set_fast(out);
    return out;
  }
  const std::string why = error ? std::strerror(error) : errno == EINPROGRESS ? "no answer in time" : system_text();
  if (out >= 0) close(out);
  return fail(Code::io, cat("cannot connect to ", address, " port ", port, ": ", why));
}

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
  const Listener listener = TRY(listen_at(address, 2 * ranks()));
  const auto run = [&]() -> Result<void> {
    if (rank_ == 0) TRY(board.put("token", cat(uint64_t{std::random_device()()})));
    TRY(board.put(cat("address/", rank_), cat(address, " ", listener.port)));
    uint64_t token = 0;
    const std::string text = TRY(board.get("token", ms_until(deadline)));
    std::from_chars(text.data(), text.data() + text.size(), token);
    for (int r = 0; r < rank_; ++r) {
      const std::string other = TRY(board.get(cat("address/", r), ms_until(deadline)));
      const size_t space = other.find(' ');
      int port = 0;
      if (space != std::string::npos) std::from_chars(other.data() + space + 1, other.data() + other.size(), port);
      for (const int is_control : {0, 1})
        (is_control ? peers_[size_t(r)]->control : peers_[size_t(r)]->data) =
            TRY(connect_to(other.substr(0, space), port, {token, rank_, is_control}, deadline));
    }
    return accept_all(listener.socket, token, deadline);
  };
  const Result<void> connected = run();
  close(listener.socket);
  return connected;
}

Result<void> SocketChannels::accept_all(int listener, uint64_t token, Clock::time_point deadline) {
  for (int left = 2 * (ranks() - 1 - rank_); left > 0;) {
    if (!wait_for(listener, POLLIN, deadline))
      return fail(Code::io, cat("rank ", number(rank_), " waits for ", left, " connections; none came in time"));
    const int caller = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    Hello hello;
    const bool is_ours = caller >= 0 && wait_for(caller, POLLIN, deadline) &&
                         recv(caller, &hello, sizeof(hello), 0) == ssize_t(sizeof(hello)) && hello.token == token &&
                         hello.rank > rank_ && hello.rank < ranks();
    if (!is_ours) {  // somebody else's: this port is open to all
      if (caller >= 0) close(caller);
      continue;
    }
    set_fast(caller);
    (hello.is_control ? peers_[size_t(hello.rank)]->control : peers_[size_t(hello.rank)]->data) = caller;
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
