// Memory that the processes of one host share. It never has a name in a file system: one process makes it, the others
// open it by that process's number, and it is gone when the last of them is, however they end. Each process holds a
// lock of the kernel's on it, which ends with the process and is not a child's: so everyone knows who is alive.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace trine::run {

class Segment {
 public:
  static Result<Segment> create(size_t bytes);  // zeros; pages take memory when first touched
  static Result<Segment> attach(const std::string& name);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }

  Result<void> hold(int index);   // this process is member `index`, while it lasts
  bool is_held(int index) const;  // by another process
  void release(int index) const;

 private:
  Segment(int file, std::byte* data, size_t bytes, std::string name)
      : file_(file), data_(data), bytes_(bytes), name_(std::move(name)) {}
  static Result<Segment> map(int file, size_t bytes, std::string name);

  int file_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::string name_;
};

}  // namespace trine::run
