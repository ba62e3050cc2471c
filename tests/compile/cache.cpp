// The compile cache under many processes, kill -9, torn files and a bound; SHA-256 and signatures by published vectors.
#include "compile/cache/cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/file.h"
#include "base/format/sha256.h"
#include "base/text.h"
#include "compile/cache/entry.h"
#include "compile/cache/s3.h"
#include "tests/testing.h"  // last

using namespace trine;
using namespace trine::compile;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "trine-cache-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string url() const { return (path / "cache").string(); }
};

Cache open(const std::string& url, int64_t bytes_max = int64_t{1} << 30) {
  auto cache = Cache::open({.url = url, .bytes_max = bytes_max});
  REQUIRE(cache);
  return std::move(*cache);
}

CacheKey key_of(int n) { return cache_key(cat("graph ", n), "trn2", "", "1", cat("program ", n)); }

// What key n's entry must hold: it depends on n, and is long enough to be torn.
std::string body_of(int n) {
  std::string out;
  std::mt19937 random{uint32_t(n)};
  for (int i = 0; i < 20000; ++i) out += char(random());
  return out;
}

void note_made(const fs::path& log, int n) {
  const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const std::string line = cat(n, "\n");
  if (::write(fd, line.data(), line.size()) != ssize_t(line.size())) std::abort();
  ::close(fd);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Runs f in a child; its exit code is what f returns.
template <class F>
pid_t start(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f());
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("sha256 and hmac: the standards' vectors") {
  CHECK_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(hex(sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a key counts each part, and where it ends") {
  CHECK_EQ(cache_key("g", "c", "f", "v").hash, cache_key("g", "c", "f", "v", "other words").hash);
  CHECK_NE(cache_key("gc", "", "f", "v").hash, cache_key("g", "c", "f", "v").hash);
  CHECK_NE(cache_key("g", "c", "f", "1").hash, cache_key("g", "c", "f", "2").hash);
}

TEST_CASE("get_or_make makes once, and keeps errors to their maker") {
  const Folder folder;
  Cache cache = open(folder.url());
  int made = 0;
  const auto make = [&]() -> Result<std::string> { return ++made, body_of(1); };
  for (int i = 0; i < 3; ++i) CHECK_EQ(*cache.get_or_make(key_of(1), make), body_of(1));
  CHECK_EQ(made, 1);
  auto bad = cache.get_or_make(key_of(2), []() -> Result<std::string> { return fail(Code::unsupported, "no"); });
  CHECK_EQ(bad.error().message, "no");
  CHECK_EQ(cache.list()->size(), 1);
  CHECK_EQ(cache.list()->front().about, "program 1");
}

TEST_CASE("torn and altered entries are never read") {
  const Folder folder;
  Cache cache = open(folder.url());
  const CacheKey key = key_of(1);
  const fs::path path = fs::path(folder.url()) / "v1" / key.hash.substr(0, 2) / (key.hash + ".entry");
  REQUIRE(cache.put(key, body_of(1)));
  const std::string whole = *read_file(path.string());
  const auto with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const bool verified = cache.verify()->front().bad.empty();
    const auto got = cache.get(key);
    CHECK_EQ(verified, got.has_value());
    return got.has_value();
  };
  CHECK(with(whole));
  for (size_t size : {size_t{0}, size_t{5}, size_t{30}, whole.size() / 2, whole.size() - 1})
    CHECK_FALSE(with(whole.substr(0, size)));
  for (size_t at : {size_t{3}, size_t{40}, whole.size() - 1}) {
    std::string altered = whole;
    altered[at] = char(altered[at] ^ 1);
    CHECK_FALSE(with(altered));
  }
  CHECK_FALSE(with(write_entry(key_of(2), body_of(2))));
}

// For test_cache_hostile.py: an entry of the right key and checksum whose bytes are no program.
TEST_CASE("an entry of anything" * doctest::skip(std::getenv("TRINE_TEST_ENTRY") == nullptr)) {
  const fs::path path = std::getenv("TRINE_TEST_ENTRY");
  std::ofstream(path, std::ios::binary) << write_entry({.hash = path.stem().string()}, "no program");
}

TEST_CASE("every byte of an entry is under its checksum or signature") {
  for (const std::string_view secret : {"", "key"}) {
    const std::string whole = write_entry(key_of(1), "some bytes", secret);
    CHECK(read_entry(whole, key_of(1).hash, secret));
    CHECK_FALSE(read_entry(whole, key_of(1).hash, secret.empty() ? "key" : ""));
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string altered = whole;
      altered[at] = char(altered[at] ^ 1);
      CAPTURE(at);
      CHECK_FALSE(read_entry(altered, key_of(1).hash, secret));
    }
  }
}

TEST_CASE("many processes: each entry is made once") {
  const Folder folder;
  const fs::path log = folder.path / "made";
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child)
    children.push_back(start([&] {
      Cache cache = open(folder.url());
      for (int n = 0; n < 6; ++n) {
        auto got = cache.get_or_make(key_of(n), [&]() -> Result<std::string> {
          note_made(log, n);
          ::usleep(3000);
          return body_of(n);
        });
        if (!got || *got != body_of(n) || !cache.trouble().empty()) return 1;
      }
      return 0;
    }));
  for (pid_t pid : children) CHECK_EQ(wait_for(pid), 0);
  CHECK_EQ(lines_of(log).size(), 6);
}

TEST_CASE("kill -9 at any moment: no torn entry, no lock that stays, nothing made twice by the living") {
  const Folder folder;
  const fs::path log = folder.path / "made";
  std::mt19937 random{7};
  for (int round = 0; round < 25; ++round) {
    const auto compile_once = [&] {
      Cache cache = open(folder.url());
      auto got = cache.get_or_make(key_of(round), [&]() -> Result<std::string> {
        note_made(log, round);
        ::usleep(1000);
        return body_of(round);
      });
      return got && *got == body_of(round) ? 0 : 1;
    };
    const pid_t victim = start(compile_once);
    ::usleep(random() % 4000);
    const pid_t waiter = start(compile_once);
    ::usleep(random() % 1000);
    ::kill(victim, SIGKILL);
    wait_for(victim);
    CHECK_EQ(wait_for(waiter), 0);
    CHECK_EQ(*open(folder.url()).get(key_of(round)), body_of(round));
  }
  // A round makes once, or twice where the first maker was killed.
  CHECK_LE(lines_of(log).size(), 50);
  Cache cache = open(folder.url());
  const auto verified = cache.verify();
  for (const CacheEntry& e : *verified) CHECK_EQ(e.bad, "");
  const auto pruned = cache.prune(int64_t{1} << 30);
  REQUIRE(pruned);
  CHECK_EQ(pruned->left_entries, 25);
  for (const char* left : {"tmp", "locks"}) CHECK(fs::is_empty(fs::path(folder.url()) / "v1" / left));
}

TEST_CASE("the least recently used goes first") {
  const Folder folder;
  Cache cache = open(folder.url(), 110000);
  for (int n = 0; n < 5; ++n) {
    REQUIRE(cache.put(key_of(n), body_of(n)));
    ::usleep(12000);
  }
  REQUIRE(cache.get(key_of(0)));
  ::usleep(12000);
  REQUIRE(cache.put(key_of(5), body_of(5)));
  CHECK(cache.get(key_of(0)));
  CHECK_FALSE(cache.get(key_of(1)));
  CHECK(cache.get(key_of(5)));
  int64_t bytes = 0;
  const auto left = cache.list();
  for (const CacheEntry& e : *left) bytes += e.bytes;
  CHECK_LE(bytes, 110000);
}

TEST_CASE("a cache that cannot be used costs only time") {
  const Folder folder;
  std::ofstream(folder.path / "file") << "x";
  CHECK_EQ(Cache::open({.url = (folder.path / "file").string()}).error().code, Code::io);
  auto cache = Cache::open({.url = "s3://bucket/x",
                            .locks = folder.url(),
                            .s3 = {.endpoint = "http://127.0.0.1:9", .access_key = "a", .secret_key = "b"}});
  REQUIRE(cache);
  CHECK_EQ(*cache->get_or_make(key_of(1), [] { return Result<std::string>(body_of(1)); }), body_of(1));
  CHECK_NE(cache->trouble().find("cannot reach s3://bucket"), std::string::npos);
}

TEST_CASE("options from the environment") {
  const auto from = [](std::map<std::string, const char*> values) {
    return cache_options([values](const char* name) { return values.contains(name) ? values.at(name) : nullptr; });
  };
  CHECK_EQ(from({{"HOME", "/h"}})->url, "/h/.cache/trine/neuron-compile-cache");
  CHECK_EQ(from({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}})->url, "/c/trine/neuron-compile-cache");
  CHECK_EQ(from({{"HOME", "/h"}, {"NEURON_COMPILE_CACHE_URL", "/x"}})->url, "/x");
  CHECK_EQ(from({{"HOME", "/h"}, {"AWS_ENDPOINT_URL", "e"}, {"AWS_ENDPOINT_URL_S3", "s"}})->s3.endpoint, "s");
  CHECK_EQ(from({{"HOME", "/h"}, {"TRINE_CACHE_BYTES", "7"}})->bytes_max, 7);
  CHECK_NE(from({{"HOME", "/h"}, {"TRINE_CACHE_BYTES", "7x"}}).error().message.find("`7x`"), std::string::npos);
  CHECK_EQ(from({}).error().code, Code::not_found);
}

// AWS's documented example of a GET ("Authenticating Requests: Using the Authorization Header").
TEST_CASE("a signature") {
  const S3Options options{.access_key = "AKIAIOSFODNN7EXAMPLE",
                          .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  const SignedRequest request{.method = "GET",
                              .host = "examplebucket.s3.amazonaws.com",
                              .path = "/",
                              .query = "lifecycle=",
                              .body_hash = hex(sha256("")),
                              .time = "20130524T000000Z"};
  CHECK(authorization(request, options)
            .ends_with("SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                       "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

// Started by tests/compile/test_cache_s3.py, which runs the server and sets the variables.
TEST_CASE("the cache in S3" * doctest::skip(std::getenv("TRINE_TEST_S3") == nullptr)) {
  auto options = cache_options([](const char* name) -> const char* { return std::getenv(name); });
  REQUIRE(options);
  auto cache = Cache::open(*options);
  REQUIRE(cache);
  int made = 0;
  const auto make = [&]() -> Result<std::string> { return ++made, body_of(1); };
  for (int i = 0; i < 3; ++i) {
    CHECK_EQ(*cache->get_or_make(key_of(1), make), body_of(1));
    CHECK_EQ(cache->trouble(), "");
  }
  CHECK_EQ(made, 1);
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child)
    children.push_back(start([&] {
      auto own = Cache::open(*options);
      for (int n = 2; n < 5; ++n) {
        auto got = own->get_or_make(key_of(n), [&]() -> Result<std::string> {
          note_made(std::getenv("TRINE_TEST_S3"), n);
          return body_of(n);
        });
        if (!got || *got != body_of(n)) return 1;
      }
      return 0;
    }));
  for (pid_t pid : children) CHECK_EQ(wait_for(pid), 0);
  CHECK_EQ(lines_of(std::getenv("TRINE_TEST_S3")).size(), 3);
  CHECK_EQ(cache->list()->size(), 4);
  const auto verified = cache->verify();
  for (const CacheEntry& e : *verified) CHECK_EQ(e.bad, "");
  CHECK_EQ(cache->prune(25000)->left_entries, 1);
  CHECK_EQ(cache->list()->size(), 1);
}
