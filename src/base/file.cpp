// Whole files in and out; see file.h.
#include "base/file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>

#include "base/text.h"

namespace trine {

namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as the kernel's
constexpr size_t kPiece = size_t{1} << 20;

Error io_error(std::string_view verb, const std::string& path, int code = errno) {
  return fail(code == ENOENT ? Code::not_found : Code::io, cat("cannot ", verb, " ", path, ": ", std::strerror(code)));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return S_ISSOCK(mode) ? "a socket" : "no regular file";
}

struct Handle {
  int fd;
  explicit Handle(int f) : fd(f) {}
  Handle(Handle&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (fd >= 0) ::close(fd);
  }
};

// The descriptor that a path like /dev/stdout or /dev/fd/3 names.
std::optional<int> descriptor_of(std::string_view path) {
  constexpr std::string_view kNames[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
  for (int i = 0; i < 3; ++i)
    if (path == kNames[i]) return i;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int fd = -1;
    const auto [end, error] = std::from_chars(path.data() + folder.size(), path.data() + path.size(), fd);
    if (error == std::errc{} && end == path.data() + path.size()) return fd;
  }
  return {};
}

Error too_large(const std::string& path, int64_t bytes) {
  return fail(Code::out_of_memory, cat("cannot read ", path, ": it has ", with_unit_bytes(double(bytes)),
                                       ", more than this machine has memory for"));
}

int64_t memory_bytes() {
  static const int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? bytes : INT64_MAX;
}

Result<std::string> read_pipe(int fd, const std::string& path) {
  std::string out;
  for (;;) {
    const size_t done = out.size();
    if (int64_t(done) > memory_bytes()) return too_large(path, int64_t(done));
    try {
      out.resize(done + kPiece);
    } catch (const std::bad_alloc&) {
      return too_large(path, int64_t(done));
    }
    const ssize_t n = ::read(fd, out.data() + done, kPiece);
    out.resize(done + size_t(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno != EINTR) return io_error("read", path);
    if (n == 0) return out;
  }
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return false;
    bytes.remove_prefix(size_t(std::max<ssize_t>(n, 0)));
  }
  return true;
}

// Into what is there: a pipe or a device, or a file whose folder takes no other.
Result<void> write_into(const std::string& path, int flags, std::string_view bytes) {
  Handle file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | flags));  // a pipe nobody reads is an error
  if (file.fd < 0) return io_error("open", path);
  ::fcntl(file.fd, F_SETFL, ::fcntl(file.fd, F_GETFL) & ~O_NONBLOCK);
  if (!write_all(file.fd, bytes)) return io_error("write", path);
  if (::close(std::exchange(file.fd, -1)) != 0) return io_error("write", path);
  return {};
}

// Where the links of a path end, whether a file is there or not.
Result<std::string> followed(std::string path) {
  for (int i = 0; i < kLinksMax; ++i) {
    std::error_code none;
    const fs::path target = fs::read_symlink(path, none);
    if (none) return path;
    path = (fs::path(path).parent_path() / target).string();
  }
  return io_error("write", path, ELOOP);
}

// A new file beside `path`, of a name nobody else has.
Handle create_beside(const std::string& path, std::string& beside) {
  static std::atomic<uint64_t> count = 0;
  for (;;) {
    beside = cat(path, ".", int64_t{::getpid()}, "-", count++, ".new");
    const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return Handle(fd);
  }
}

bool refuses_neighbours(int code) { return code == EACCES || code == EPERM || code == EROFS || code == EBUSY; }

// `old`: the file that is there, if one is.
Result<void> replace(const std::string& path, const struct stat* old, std::string_view bytes) {
  if (old && ::access(path.c_str(), W_OK) != 0) return io_error("write", path);
  std::string beside;
  Handle file = create_beside(path, beside);
  if (file.fd < 0)
    return old && refuses_neighbours(errno) ? write_into(path, O_TRUNC, bytes) : io_error("create", path);
  bool done = write_all(file.fd, bytes);
  if (done && old) {
    if (::fchown(file.fd, old->st_uid, old->st_gid) != 0) errno = 0;  // only root may give files away
    done = ::fchmod(file.fd, old->st_mode & 0777) == 0;
  }
  done = ::close(std::exchange(file.fd, -1)) == 0 && done;
  if (done && ::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int code = errno;
  ::unlink(beside.c_str());
  return done && old && refuses_neighbours(code) ? write_into(path, O_TRUNC, bytes) : io_error("write", path, code);
}

// Without openat2 (old kernels, some sandboxes): opened, then asked where it lies.
int open_and_ask(int folder, const std::string& name) {
  Handle file(name[0] == '/' ? -1 : ::openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.fd < 0) {
    if (name[0] == '/') errno = EXDEV;
    return -1;
  }
  std::error_code none;
  const auto path_of = [&](int fd) { return fs::read_symlink(cat("/proc/self/fd/", int64_t{fd}), none).string(); };
  const std::string root = path_of(folder);
  if (!none && path_of(file.fd).starts_with(root == "/" ? root : root + "/") && !none)
    return std::exchange(file.fd, -1);
  errno = EXDEV;
  return -1;
}

int open_below(int folder, const std::string& name) {
  open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto fd = int(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how));
  return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_and_ask(folder, name) : fd;
}

// What `folder`/`name` leads to, opened beneath the folder that holds the file that `source` leads to.
int open_as_source(const std::string& folder, const std::string& name, const std::string& source) {
  std::error_code none;
  const fs::path real = fs::canonical(source, none).parent_path(),
                 target = fs::canonical(fs::path(folder) / name, none);
  if (none) return -1;
  const Handle root(::open(real.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return root.fd < 0 ? -1 : open_below(root.fd, target.lexically_relative(real).string());
}

}  // namespace

OpenFile::OpenFile(OpenFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}
OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<OpenFile> OpenFile::checked(int fd, std::string path) {
  OpenFile out(fd, std::move(path));
  if (fd < 0) return io_error("open", out.path_);
  struct stat info{};
  if (::fstat(fd, &info) != 0) return io_error("open", out.path_);
  if (!S_ISREG(info.st_mode))
    return fail(Code::io, cat("cannot open ", out.path_, ": it is ", kind_of(info.st_mode), "; expected a file"));
  out.size_ = int64_t(info.st_size);
  return out;
}

Result<OpenFile> OpenFile::open(const std::string& path) {
  return checked(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), path);
}

Result<OpenFile> OpenFile::open_beneath(const std::string& folder, const std::string& name, const std::string& source) {
  const std::string shown = cat(folder, folder.empty() ? "" : "/", name);
  const auto outside = [&] {
    return fail(Code::invalid, cat("the name `", name, "` leads out of ", folder.empty() ? "." : folder,
                                   "; expected a file in that folder or below it"));
  };
  if (name.empty() || name.find('\0') != std::string::npos)
    return fail(Code::invalid, cat("the name of a file is `", name, "`; expected one in ", folder));
  const Handle root(::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.fd < 0) return io_error("open", folder);
  int fd = open_below(root.fd, name);
  if (fd < 0 && (errno == EXDEV || errno == ELOOP)) {
    if (name[0] == '/' || !fs::is_symlink(source)) return outside();
    fd = open_as_source(folder, name, source);
    if (fd < 0) return outside();
  }
  return checked(fd, shown);
}

Result<std::string> OpenFile::read(int64_t offset, int64_t length) const {
  if (offset < 0 || length < 0 || offset > size_ || length > size_ - offset)
    return fail(Code::invalid, cat("bytes ", offset, " + ", length, " of ", path_, ", which has ", size_));
  if (length > memory_bytes()) return too_large(path_, length);
  std::string out;
  try {
    out.resize(size_t(length));
  } catch (const std::bad_alloc&) {
    return too_large(path_, length);
  }
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = ::pread(fd_, out.data() + done, out.size() - done, offset + int64_t(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path_);
    if (n == 0) return fail(Code::io, cat("cannot read ", path_, ": it became shorter meanwhile"));
    done += size_t(n);
  }
  return out;
}

Result<std::span<const std::byte>> map_file(const OpenFile& file, std::shared_ptr<const void>& owner) {
  const auto size = size_t(file.size());
  if (size == 0) return std::span<const std::byte>{};
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (at == MAP_FAILED) return errno == ENOMEM ? too_large(file.path(), file.size()) : io_error("map", file.path());
  owner = std::shared_ptr<const void>(at, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return std::span(static_cast<const std::byte*>(at), size);
}

Result<std::string> read_file(const std::string& path) {
  if (const auto fd = descriptor_of(path)) return read_pipe(*fd, path);
  const OpenFile file = TRY(OpenFile::open(path));
  return file.size() > 0 ? file.read(0, file.size()) : read_pipe(file.fd(), path);  // files of /proc say 0
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  if (const auto fd = descriptor_of(path)) return write_all(*fd, bytes) ? Result<void>() : io_error("write", path);
  struct stat there{};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return io_error("write", path);
  if (exists && S_ISDIR(there.st_mode)) return io_error("write", path, EISDIR);
  if (exists && !S_ISREG(there.st_mode)) return write_into(path, 0, bytes);
  return replace(TRY(followed(path)), exists ? &there : nullptr, bytes);
}

}  // namespace trine
