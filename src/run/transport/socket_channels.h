// Channels over sockets (devices/sockets.h), for ranks on several hosts. Between two ranks there are two connections:
// one for bytes, and one that says that the other is there, leaves or found the group broken. Ports are open only until
// all are connected.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "run/devices/peers.h"
#include "run/transport/channels.h"

namespace trine::run {

class SocketChannels : public Channels {
 public:
  // `address` is this rank's host's, as others reach it.
  static Result<std::unique_ptr<SocketChannels>> connect(Board& board, int rank, std::vector<int> numbers,
                                                         const std::string& address, Clock::time_point deadline);
  ~SocketChannels() override;

  size_t write(int to, std::span<const std::byte> bytes) override;
  size_t read(int from, std::span<std::byte> bytes) override;
  void expect(int rank, bool to_read, bool to_write) override;
  uint32_t news() const override { return news_.load(); }
  void wait(uint32_t seen, std::chrono::milliseconds most) override;
  void wake() override;
  std::string gone(int rank, bool is_send) const override;
  Failure break_with(const std::string& why) override;
  bool is_broken() const override { return is_broken_.load(); }
  Failure failure() const override;
  int number(int rank) const override { return numbers_[size_t(rank)]; }
  int rank() const override { return rank_; }
  int ranks() const override { return int(numbers_.size()); }
  void leave() override;

 private:
  struct Peer {
    int data = -1, control = -1;
    bool to_read = false, to_write = false;
    std::string heard = {};                               // of what is not complete
    std::atomic<bool> has_ended{false}, has_left{false};  // by its control connection
    std::atomic<bool> is_read_over{false};  // the end of its bytes, which may come after the news that it left
  };
  SocketChannels(int rank, std::vector<int> numbers);
  Result<void> connect_all(Board& board, const std::string& address, Clock::time_point deadline);
  int& connection(int rank, bool is_control) {
    return is_control ? peers_[size_t(rank)]->control : peers_[size_t(rank)]->data;
  }
  void hear(Peer& peer);  // what its control connection has
  void notify(char kind, const std::string& text);

  const int rank_;
  const std::vector<int> numbers_;
  std::vector<std::unique_ptr<Peer>> peers_;
  int wakeup_ = -1;
  std::atomic<uint32_t> news_{0};
  std::atomic<bool> is_broken_{false};
  mutable std::mutex mutex_;
  std::string why_;
};

}  // namespace trine::run
