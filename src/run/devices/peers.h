// The other processes of a program that runs on the devices of several, on this machine and on others: a socket to each
// (sockets.h), and what they have sent that nobody has taken yet. Not what is sent or why (rendezvous.h). Invariant:
// receive() ends: with the message, or with an error when the peer is gone, gave up, or is late.
#pragma once

#include <array>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "host/scratch.h"

namespace trine::run {

// Where processes of one job leave texts for each other before they are connected.
class Board {
 public:
  virtual ~Board() = default;
  virtual Result<void> put(const std::string& key, const std::string& text) = 0;
  virtual Result<std::string> get(const std::string& key, int timeout_ms) = 0;  // waits for it
};

// A run of a program that several processes take part in: the devices it runs on, by a hash, and how many runs on
// those came before it. All processes start such runs in the same order.
struct Launch {
  uint64_t devices = 0, number = 0;
  auto operator<=>(const Launch&) const = default;
};

// A collective within it: the program, by a hash; the step; the first participant of the group; how often it was met.
struct RendezvousKey {
  uint64_t program = 0, step = 0, group = 0, round = 0;
  auto operator<=>(const RendezvousKey&) const = default;
};

class Peers {
 public:
  struct Message {
    host::Memory bytes;
    size_t size = 0;
  };

  // Connects `process` of `count` to all others; `about` is given to each of them, and theirs are in about().
  static Result<std::unique_ptr<Peers>> connect(Board& board, int process, int count, std::string about);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int process() const { return process_; }
  const std::vector<std::string>& about() const { return about_; }  // by process
  uint64_t next_launch(uint64_t devices);                           // its number, from 1

  Result<void> send(int to, const Launch& launch, const RendezvousKey& point,
                    std::span<const std::span<const std::byte>> parts);
  // `is_over` is asked now and then; once true, the wait ends with an error.
  Result<Message> receive(int from, const Launch& launch, const RendezvousKey& point,
                          const std::function<bool()>& is_over);
  void give_up(const Launch& launch, const std::string& why);  // tells all the others
  void forget(const Launch& launch);                           // and all before it on the same devices

 private:
  struct Header;
  struct Peer {
    int socket = -1;
    std::mutex sending;
    std::thread reader;
    std::string gone;  // why, with mutex_ held
  };

  Peers(int process, int count);
  Result<void> connect_all(Board& board);
  Result<void> write(Peer& peer, const Header& header, std::span<const std::span<const std::byte>> parts);
  void read(int from);
  Result<void> take(int from, const Header& header);

  const int process_;
  std::vector<std::string> about_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by process; null for this one
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, uint64_t> launches_, over_;  // by devices: the last begun, the last that is over
  std::map<std::tuple<int, Launch, RendezvousKey>, Message> inbox_;
  std::map<Launch, std::string> given_up_;
};

}  // namespace trine::run
