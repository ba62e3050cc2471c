// A thread for each peer reads what comes, so that two processes may send to each other at once.
#include "run/devices/peers.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "base/text.h"
#include "run/devices/sockets.h"

namespace trine::run {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kConnectMs = 120'000;              // to start all processes
constexpr size_t kMessageMax = size_t{1} << 40;  // bytes
constexpr int64_t kLateSeconds = 600;            // a peer that is there but does not come
constexpr milliseconds kLook{50};                // between looks at whether a wait is over
constexpr uint64_t kGivenUp = UINT64_MAX;        // as a step: the message says why

std::string system_text() { return std::strerror(errno); }

// NEURON_RT_EXEC_TIMEOUT, in seconds, as for a collective on the device.
seconds late_after() {
  const char* text = std::getenv("NEURON_RT_EXEC_TIMEOUT");
  const int64_t given = text ? std::atoll(text) : 0;
  return seconds(given > 0 ? given : kLateSeconds);
}

}  // namespace

struct Peers::Header {
  Launch launch;
  RendezvousKey point;
  uint64_t size = 0;
};

Peers::Peers(int process, int count) : process_(process), about_(size_t(count)) {
  for (int p = 0; p < count; ++p) peers_.push_back(p == process ? nullptr : std::make_unique<Peer>());
}

Result<std::unique_ptr<Peers>> Peers::connect(Board& board, int process, int count, std::string about) {
  if (count < 1 || process < 0 || process >= count) return fail(Code::invalid, cat("process ", process, " of ", count));
  std::unique_ptr<Peers> out(new Peers(process, count));
  out->about_[size_t(process)] = std::move(about);
  TRY(out->connect_all(board));
  for (int p = 0; p < count; ++p)
    if (p != process) out->peers_[size_t(p)]->reader = std::thread([self = out.get(), p] { self->read(p); });
  return out;
}

// Each process calls those before it, and is called by those after it; who calls knows the secret on the board.
Result<void> Peers::connect_all(Board& board) {
  Listener listener = TRY(Listener::open(process_));
  const int count = int(peers_.size());
  TRY(board.put(cat("trine/", process_), cat(listener.text(), " ", about_[size_t(process_)])));
  for (int p = 0; p < count; ++p) {
    if (p == process_) continue;
    const auto text = board.get(cat("trine/", p), kConnectMs);
    if (!text) return fail(Code::io, cat("process ", p, " of ", count, " did not come: ", text.error().message));
    const size_t space = text->find(' ');
    if (space == std::string::npos) return fail(Code::io, cat("process ", p, " left a text that cannot be read"));
    about_[size_t(p)] = text->substr(space + 1);
    if (p < process_) peers_[size_t(p)]->socket = TRY(call(text->substr(0, space), p, process_));
  }
  for (int to_come = count - 1 - process_; to_come > 0;) {
    const Listener::Caller caller = TRY(listener.accept(process_, count, kConnectMs));
    int& socket = peers_[size_t(caller.process)]->socket;
    if (socket >= 0) {
      close(caller.socket);
      continue;
    }
    socket = caller.socket;
    --to_come;
  }
  return {};
}

Peers::~Peers() {
  for (auto& peer : peers_)
    if (peer && peer->socket >= 0) shutdown(peer->socket, SHUT_RDWR);
  for (auto& peer : peers_) {
    if (!peer) continue;
    if (peer->reader.joinable()) peer->reader.join();
    if (peer->socket >= 0) close(peer->socket);
  }
}

uint64_t Peers::next_launch(uint64_t devices) {
  std::lock_guard lock(mutex_);
  return ++launches_[devices];
}

Result<void> Peers::write(Peer& peer, const Header& header, std::span<const std::span<const std::byte>> parts) {
  std::lock_guard lock(peer.sending);
  bool sent = send_all(peer.socket, &header, sizeof(header));
  for (size_t i = 0; sent && i < parts.size(); ++i) sent = send_all(peer.socket, parts[i].data(), parts[i].size());
  if (!sent) return fail(Code::io, system_text());
  return {};
}

Result<void> Peers::send(int to, const Launch& launch, const RendezvousKey& point,
                         std::span<const std::span<const std::byte>> parts) {
  Header header{launch, point, 0};
  for (const auto& part : parts) header.size += part.size();
  const Result<void> sent = write(*peers_[size_t(to)], header, parts);
  if (!sent) return fail(Code::io, cat("process ", to, " is gone: ", sent.error().message));
  return {};
}

Result<Peers::Message> Peers::receive(int from, const Launch& launch, const RendezvousKey& point,
                                      const std::function<bool()>& is_over) {
  const auto start = std::chrono::steady_clock::now(), late = start + late_after();
  std::unique_lock lock(mutex_);
  while (true) {
    if (auto found = inbox_.find({from, launch, point}); found != inbox_.end()) {
      Message out = std::move(found->second);
      inbox_.erase(found);
      return out;
    }
    if (const auto why = given_up_.find(launch); why != given_up_.end()) return fail(Code::io, why->second);
    const auto other = inbox_.lower_bound({from, launch, RendezvousKey{}});
    if (other != inbox_.end() && std::get<0>(other->first) == from && std::get<1>(other->first) == launch &&
        std::get<2>(other->first).program != point.program)
      return fail(Code::invalid, cat("process ", from,
                                     " runs another program in place of this one: all processes must "
                                     "start programs over shared devices in the same order"));
    const std::string& gone = peers_[size_t(from)]->gone;
    if (!gone.empty()) return fail(Code::io, cat("process ", from, " is gone: ", gone));
    if (std::chrono::steady_clock::now() > late)
      return fail(Code::io, cat("process ", from, " did not come to a collective in ", late_after().count(),
                                " s (NEURON_RT_EXEC_TIMEOUT)"));
    changed_.wait_for(lock, kLook);
    lock.unlock();
    if (is_over()) return fail(Code::cancelled, "another device of this process failed");
    lock.lock();
  }
}

void Peers::give_up(const Launch& launch, const std::string& why) {
  const std::string text = cat("process ", process_, ": ", why);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  for (int p = 0; p < int(peers_.size()); ++p)
    if (p != process_) (void)send(p, launch, {.step = kGivenUp}, parts);  // one that is gone needs no telling
}

void Peers::forget(const Launch& launch) {
  std::lock_guard lock(mutex_);
  uint64_t& over = over_[launch.devices];
  over = std::max(over, launch.number);
  const auto is_over = [&](const Launch& l) { return l.devices == launch.devices && l.number <= over; };
  std::erase_if(inbox_, [&](const auto& item) { return is_over(std::get<1>(item.first)); });
  std::erase_if(given_up_, [&](const auto& item) { return is_over(item.first); });
}

Result<void> Peers::take(int from, const Header& header) {
  if (header.size > kMessageMax) return fail(Code::io, cat("a message of ", header.size, " bytes"));
  Message message{host::Memory(header.size), header.size};
  if (!message.bytes.data()) return fail(Code::out_of_memory, cat("no memory for ", header.size, " bytes"));
  if (!receive_all(peers_[size_t(from)]->socket, message.bytes.data(), header.size))
    return fail(Code::io, "it ended in the middle of a message");
  std::lock_guard lock(mutex_);
  if (header.launch.number <= over_[header.launch.devices]) return {};
  if (header.point.step == kGivenUp)
    given_up_.emplace(header.launch, std::string(reinterpret_cast<const char*>(message.bytes.data()), message.size));
  else
    inbox_[{from, header.launch, header.point}] = std::move(message);
  changed_.notify_all();
  return {};
}

void Peers::read(int from) {
  Peer& peer = *peers_[size_t(from)];
  std::string why = "it has ended";
  Header header;
  while (receive_all(peer.socket, &header, sizeof(header))) {
    const Result<void> taken = take(from, header);
    if (taken) continue;
    why = taken.error().message;
    break;
  }
  std::lock_guard lock(mutex_);
  peer.gone = why;
  changed_.notify_all();
}

}  // namespace trine::run
