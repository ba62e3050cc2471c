// Entries are written beside, made durable, and renamed into place: a reader sees the whole of one or none.
#include "compile/cache/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "compile/cache/entry.h"

namespace trine::compile {

namespace {

namespace fs = std::filesystem;

Error failed(std::string_view what, const std::string& path) {
  const int code = errno;
  return fail(code == ENOENT ? Code::not_found : Code::io, cat("cannot ", what, " ", path, ": ", std::strerror(code)));
}

struct File {
  int fd = -1;
  explicit File(int f) : fd(f) {}
  File(File&& o) noexcept : fd(o.fd) { o.fd = -1; }
  File& operator=(File&&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path);
    bytes.remove_prefix(size_t(n));
  }
  return {};
}

Result<std::string> read_all(const std::string& path) {
  const OpenFile file = TRY(OpenFile::open(path));
  std::string out = TRY(file.read(0, file.size()));
  ::futimens(file.fd(), nullptr);  // used now; where that is not allowed the entry only looks older
  return out;
}

// The first bytes, where an entry says what it is.
std::string head_of(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string out(4096, '\0');
  const ssize_t n = file.fd < 0 ? 0 : ::pread(file.fd, out.data(), out.size(), 0);
  out.resize(size_t(std::max<ssize_t>(n, 0)));
  return out;
}

// With those above it that are missing, each for its owner alone.
Result<void> make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT || !path.has_relative_path()) return failed("make the folder", path.string());
  TRY(make_folder(path.parent_path()));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("make the folder", path.string());
  return {};
}

void sync_folder(const std::string& path) {
  const File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd >= 0) ::fsync(folder.fd);
}

class Folder : public CacheStore {
 public:
  explicit Folder(std::string root) : root_(std::move(root)) {}

  Result<std::string> read(const std::string& hash) override { return read_all(path_of(hash)); }

  Result<void> write(const std::string& hash, std::string_view bytes) override {
    for (int attempt = 0;; ++attempt) {
      auto done = write_once(hash, bytes);
      // Someone swept the file before it was locked, or removed the folder: once more.
      if (done || done.error().code != Code::not_found || attempt == 3) return done;
    }
  }

  Result<void> remove(const std::string& hash) override {
    const std::string path = path_of(hash);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("remove", path);
    return {};
  }

  Result<std::vector<CacheEntry>> list(bool about) override {
    std::vector<CacheEntry> out;
    std::error_code error;
    for (fs::directory_iterator subfolders(root_, error), end; !error && subfolders != end;
         subfolders.increment(error)) {
      if (subfolders->path().filename().string().size() != 2) continue;
      std::error_code inner;  // a folder may vanish meanwhile
      for (fs::directory_iterator at(subfolders->path(), inner), last; !inner && at != last; at.increment(inner)) {
        struct stat info = {};
        const std::string stem = at->path().stem().string();
        if (at->path().extension() != ".entry" || !is_cache_hash(stem) || ::stat(at->path().c_str(), &info) != 0)
          continue;
        out.push_back({.hash = stem,
                       .bytes = int64_t(info.st_size),
                       .used = double(info.st_mtim.tv_sec) + double(info.st_mtim.tv_nsec) * 1e-9});
        if (about) out.back().about = about_entry(head_of(at->path().string()));
      }
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return fail(Code::io, cat("cannot list ", root_, ": ", error.message()));
    return out;
  }

 private:
  std::string path_of(const std::string& hash) const { return cat(root_, "/", hash.substr(0, 2), "/", hash, ".entry"); }

  Result<void> write_once(const std::string& hash, std::string_view bytes) {
    static std::atomic<uint64_t> count = 0;
    const std::string target = path_of(hash), subfolder = fs::path(target).parent_path().string();
    const std::string folder = root_ + "/tmp",
                      path = cat(folder, "/", ::getpid(), "-", count++, "-", hash.substr(0, 8));
    TRY(make_folder(folder));
    TRY(make_folder(subfolder));
    const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.fd < 0) return failed("make", path);
    ::flock(file.fd, LOCK_EX | LOCK_NB);  // says that its writer lives: sweep() leaves it
    auto done = write_all(file.fd, bytes, path);
    if (done && ::fsync(file.fd) != 0) done = failed("keep", path);
    if (done && ::rename(path.c_str(), target.c_str()) != 0) done = failed("rename", path);
    if (!done) ::unlink(path.c_str());
    if (done) sync_folder(subfolder);
    return done;
  }

  std::string root_;
};

// Whether the file that is open is still the one of that name.
bool is_same(int fd, const std::string& path) {
  struct stat open_file = {}, named = {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

}  // namespace

Result<std::unique_ptr<CacheStore>> open_folder(const std::string& path) {
  const std::string root = path + "/v1";
  TRY(make_folder(root));
  return std::unique_ptr<CacheStore>(std::make_unique<Folder>(root));
}

Result<CacheLock> CacheLock::take(const std::string& folder, const std::string& hash) {
  TRY(make_folder(folder));
  const std::string path = cat(folder, "/", hash, ".lock");
  for (;;) {
    File file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.fd < 0) return failed("lock", path);
    while (::flock(file.fd, LOCK_EX) != 0)
      if (errno != EINTR) return failed("lock", path);
    if (!is_same(file.fd, path)) continue;  // swept while we waited; a new one of its name may be held
    const int fd = file.fd;
    file.fd = -1;
    return CacheLock(fd);
  }
}

CacheLock::~CacheLock() {
  if (file_ >= 0) ::close(file_);
}

void sweep(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const File file(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (file.fd >= 0 && ::flock(file.fd, LOCK_EX | LOCK_NB) == 0 && is_same(file.fd, path)) ::unlink(path.c_str());
  }
}

}  // namespace trine::compile
