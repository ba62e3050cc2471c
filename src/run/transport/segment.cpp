// memfd, mmap and record locks; see segment.h.
#include "run/transport/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/text.h"

namespace trine::run {

namespace {

flock lock_of(int index, short type) {
  flock out{};
  out.l_type = type;
  out.l_whence = SEEK_SET;
  out.l_start = index;
  out.l_len = 1;
  return out;
}

Failure system_failure(std::string_view what) { return fail(Code::io, cat(what, ": ", std::strerror(errno))); }

}  // namespace

Result<Segment> Segment::map(int file, size_t bytes, std::string name) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    const Failure failure = system_failure(cat("cannot map ", bytes, " bytes of shared memory"));
    close(file);
    return failure;
  }
  return Segment(file, static_cast<std::byte*>(at), bytes, std::move(name));
}

Result<Segment> Segment::create(size_t bytes) {
  const int file = memfd_create("trine", MFD_CLOEXEC);
  if (file < 0) return system_failure("cannot make shared memory");
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const Failure failure = system_failure(cat("cannot make ", bytes, " bytes of shared memory"));
    close(file);
    return failure;
  }
  return map(file, bytes, cat(int64_t{getpid()}, " ", file, " ", bytes));
}

Result<Segment> Segment::attach(const std::string& name) {
  const std::vector<std::string_view> words = split(name, ' ');
  size_t bytes = 0;
  const bool is_name =
      words.size() == 3 && std::from_chars(words[2].data(), words[2].data() + words[2].size(), bytes).ec == std::errc();
  if (!is_name) return fail(Code::invalid, cat("\"", name, "\" does not name shared memory; expected three numbers"));
  const int file = open(cat("/proc/", words[0], "/fd/", words[1]).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return system_failure(cat("cannot open the shared memory of process ", words[0]));
  return map(file, bytes, name);
}

Segment::Segment(Segment&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      name_(std::move(other.name_)) {}

Segment::~Segment() {
  if (data_) munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

Result<void> Segment::hold(int index) {
  flock lock = lock_of(index, F_WRLCK);
  if (fcntl(file_, F_SETLK, &lock) != 0) return system_failure(cat("cannot lock byte ", index, " of shared memory"));
  return {};
}

bool Segment::is_held(int index) const {
  flock lock = lock_of(index, F_WRLCK);
  return fcntl(file_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void Segment::release(int index) const {
  flock lock = lock_of(index, F_UNLCK);
  fcntl(file_, F_SETLK, &lock);
}

}  // namespace trine::run
