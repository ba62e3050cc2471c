// Messages between ranks: sends and receives that match by rank and tag, in the order they were asked for. What cannot
// be done at once is done by a thread of the mailbox's own, which sleeps while nothing can be.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "run/transport/channels.h"
#include "run/transport/operation.h"

namespace trine::run {

constexpr int kAnyRank = -1;

class Mailbox {
 public:
  // Called once, on whichever thread was the last to move bytes; `from` is the sender of what was received.
  using Done = std::function<void(const Result<void>& result, int from)>;
  struct Message {
    int rank = 0;  // whom to, or from; kAnyRank receives from whoever is first
    uint64_t tag = 0;
    BytesList parts = {};
    std::string line = {};
    Clock::time_point deadline = {};
    Done done = {};
  };

  explicit Mailbox(Channels& channels);
  ~Mailbox();  // fails what is not done

  void send(Message message);
  void receive(Message message);

 private:
  struct Header {
    uint64_t tag = 0, bytes = 0;
  };
  struct Transfer : Message {
    Header header = {};
    size_t moved = 0;  // bytes, the header's among them
  };
  struct Arrived {  // before anybody asked for it
    int from = 0;
    Header header = {};
    std::vector<std::byte> bytes = {};
  };
  // What is coming in from one rank.
  struct Incoming {
    Header header = {};
    size_t moved = 0;
    std::unique_ptr<Transfer> into = {};  // the receive it is for
    std::unique_ptr<Arrived> early = {};  // or nobody's yet
  };
  using Finished = std::vector<std::function<void()>>;
  using Receives = std::list<std::unique_ptr<Transfer>>;

  void post(const std::function<void(Finished&)>& add);
  bool progress(Finished& finished);  // with mutex_ held; whether a byte moved
  bool push(int to, Finished& finished);
  bool pull(int from, Finished& finished);
  bool begin(int from, Incoming& incoming, Finished& finished);
  void deliver(const Arrived& arrived, const Transfer& to, Finished& finished);
  Receives::iterator find_receive(int from, uint64_t tag);
  bool is_wanted(int from) const;
  std::string wrong_size(int from, const Header& found, const Transfer& expected) const;
  void find_lost(Finished& finished);
  void fail_all(const Error& error, Finished& finished);
  void run();
  std::string what(const Transfer& transfer, bool is_send) const;

  Channels& channels_;
  std::mutex mutex_;
  std::vector<std::deque<std::unique_ptr<Transfer>>> sends_;  // by rank
  Receives receives_;
  std::vector<Incoming> incoming_;  // by rank
  std::list<Arrived> early_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trine::run
