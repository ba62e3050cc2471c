// Bytes between this rank and each other one, in order, in both directions. Nothing here waits but `wait`.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "run/transport/shared.h"

namespace trine::run {

class Channels {
 public:
  virtual ~Channels() = default;
  virtual size_t write(int to, std::span<const std::byte> bytes) = 0;  // how many were taken
  virtual size_t read(int from, std::span<std::byte> bytes) = 0;       // how many were there
  virtual void expect(int, bool /*to_read*/, bool /*to_write*/) {}     // what `wait` is to look at, of a rank
  virtual uint32_t news() const = 0;
  virtual void wait(uint32_t seen, std::chrono::milliseconds most) = 0;  // until news() is not `seen`
  virtual void wake() = 0;                                               // this rank's own waiting thread
  // Why nothing more will come from that rank, or with `is_send` why it will read nothing more; empty while it may.
  virtual std::string gone(int rank, bool is_send) const = 0;
  virtual Failure break_with(const std::string& why) = 0;
  virtual bool is_broken() const = 0;
  virtual Failure failure() const = 0;
  virtual void leave() = 0;
  virtual int number(int rank) const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
};

// Over the rings of a segment.
class SharedChannels : public Channels {
 public:
  explicit SharedChannels(Shared& shared) : shared_(shared) {}
  size_t write(int to, std::span<const std::byte> bytes) override;
  size_t read(int from, std::span<std::byte> bytes) override;
  uint32_t news() const override { return shared_.at(shared_.rank()).doorbell.load(); }
  void wait(uint32_t seen, std::chrono::milliseconds most) override;
  void wake() override { shared_.wake_rank(shared_.rank()); }
  std::string gone(int rank, bool) const override { return shared_.gone(rank); }
  Failure break_with(const std::string& why) override { return shared_.break_with(why); }
  bool is_broken() const override { return shared_.is_broken(); }
  Failure failure() const override { return shared_.failure(); }
  void leave() override { shared_.leave(); }
  int number(int rank) const override { return shared_.number(rank); }
  int rank() const override { return shared_.rank(); }
  int ranks() const override { return shared_.ranks(); }

 private:
  Shared& shared_;
};

}  // namespace trine::run
