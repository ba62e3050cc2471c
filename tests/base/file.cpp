// Files in and out: outputs replace only what they should, names inside models stay beneath their folder.
#include "base/file.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "trine-file-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(std::string_view name) const { return (path / name).string(); }
};

void put(const std::string& path, std::string_view text) { std::ofstream(path) << text; }
std::string get(const std::string& path) {
  const auto text = read_file(path);
  return text ? *text : text.error().message;
}
mode_t mode_of(const std::string& path) {
  struct stat info{};
  ::lstat(path.c_str(), &info);
  return info.st_mode;
}
std::string opened(const Folder& folder, const std::string& name, const std::string& source = {}) {
  const auto file = OpenFile::open_beneath(folder.path.string(), name, source);
  return file ? *file->read(0, file->size()) : file.error().message;
}

// In a child that has no openat2.
int status_without_openat2(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{4, code};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(9);
    ::_exit(holds() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("an output goes into a pipe, which stays one") {
  const Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto unread = write_file(pipe, "x");
  REQUIRE(!unread);
  CHECK(unread.error().message == cat("cannot open ", pipe, ": No such device or address"));
  std::string got(3, '\0');
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  CHECK(write_file(pipe, "abc"));
  CHECK(::read(reader, got.data(), 3) == 3);
  ::close(reader);
  CHECK(got == "abc");
  CHECK(S_ISFIFO(mode_of(pipe)));
}

TEST_CASE("an output named by a descriptor goes there") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(write_file(cat("/dev/fd/", int64_t{ends[1]}), "abc"));
  ::close(ends[1]);
  CHECK(get(cat("/dev/fd/", int64_t{ends[0]})) == "abc");
  ::close(ends[0]);
}

TEST_CASE("an output follows links and keeps the file's mode") {
  const Folder folder;
  put(folder / "file", "old");
  REQUIRE(::chmod((folder / "file").c_str(), 0640) == 0);
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("none", folder / "dangling");
  CHECK(write_file(folder / "link", "new"));
  CHECK(write_file(folder / "dangling", "made"));
  CHECK(S_ISLNK(mode_of(folder / "link")));
  CHECK(get(folder / "file") == "new");
  CHECK((mode_of(folder / "file") & 0777) == 0640);
  CHECK(get(folder / "none") == "made");
  fs::create_symlink("loop", folder / "loop");
  CHECK(!write_file(folder / "loop", "x"));
  CHECK(!write_file(folder.path.string(), "x"));
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 5);  // nothing half written is left
}

TEST_CASE("what is no file is refused, at once") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(get(folder / "pipe") == cat("cannot open ", folder / "pipe", ": it is a pipe; expected a file"));
  CHECK(get(folder.path.string()) == cat("cannot open ", folder.path.string(), ": it is a folder; expected a file"));
  CHECK(get("/dev/zero") == "cannot open /dev/zero: it is a device; expected a file");
}

TEST_CASE("a file larger than memory is an error") {
  const Folder folder;
  put(folder / "large", "");
  REQUIRE(::truncate((folder / "large").c_str(), off_t{1} << 42) == 0);
  const auto text = read_file(folder / "large");
  REQUIRE(!text);
  CHECK(text.error().code == Code::out_of_memory);
  CHECK(text.error().message.find("more than this machine has memory for") != std::string::npos);
}

TEST_CASE("names inside models stay beneath the folder") {
  const Folder folder, other;
  put(folder / "in", "inside");
  put(other / "secret", "secret");
  fs::create_directory(folder / "sub");
  fs::create_symlink("../in", folder / "sub/up");
  fs::create_symlink(other / "secret", folder / "out");
  fs::create_symlink(other.path, folder / "away");
  const auto all = [&] {
    bool right = opened(folder, "in") == "inside" && opened(folder, "sub/up") == "inside" &&
                 opened(folder, "sub/../in") == "inside";
    for (const std::string& name : {std::string("out"), std::string("away/secret"), other / "secret",
                                    cat("../", other.path.filename().string(), "/secret"),
                                    std::string("/proc/self/root"
                                                "/etc/passwd")})
      right = right && opened(folder, name).starts_with(cat("the name `", name, "` leads out of "));
    return right;
  };
  CHECK(all());
  CHECK(status_without_openat2(all) == 0);
  CHECK(opened(folder, ".").ends_with("it is a folder; expected a file"));
  CHECK(opened(folder, "none").ends_with("No such file or directory"));
  CHECK(opened(folder, "").starts_with("the name of a file is ``"));
}

TEST_CASE("a hub's cache: the model and its data are links to one folder") {
  const Folder folder, other;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshots/1");
  put(folder / "blobs/a", "model");
  put(folder / "blobs/b", "data");
  put(other / "secret", "secret");
  fs::create_symlink("../../blobs/a", folder / "snapshots/1/model.onnx");
  fs::create_symlink("../../blobs/b", folder / "snapshots/1/model.data");
  fs::create_symlink(other / "secret", folder / "snapshots/1/secret");
  const auto data = OpenFile::open_beneath(folder / "snapshots/1", "model.data", folder / "snapshots/1/model.onnx");
  REQUIRE(data);
  CHECK(*data->read(0, 4) == "data");
  CHECK(!OpenFile::open_beneath(folder / "snapshots/1", "model.data"));
  CHECK(!OpenFile::open_beneath(folder / "snapshots/1", "secret", folder / "snapshots/1/model.onnx"));
}
