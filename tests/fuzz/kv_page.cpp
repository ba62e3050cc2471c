// Any bytes as a saved page of keys and values: refused with a message, or a page that is whole; then what is written
// reads back to the same bytes. A page's memory ends at a guard page.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "serve/session.h"
#include "tests/fuzz/guarded.h"

namespace {

// A folder of this process, gone with it.
struct Folder {
  std::string path;
  Folder() {
    const char* shm = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    path = std::string(shm) + "/trine-fuzz-kv-" + std::to_string(::getpid());
    std::filesystem::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  static const Folder folder;
  constexpr uint64_t kModel = 7;
  const serve::PageStore store(folder.path, kModel);
  std::array<int32_t, serve::kPageTokens> tokens;
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::string name = store.name(1), path = folder.path + "/" + name;
  FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) return 0;
  if (size) std::fwrite(data, 1, size, file);
  std::fclose(file);
  for (const size_t bytes : {size_t{64}, size_t{72}}) {
    Guarded page(bytes);
    const auto read = store.read(name, tokens, {page.data(), bytes});
    if (!read) {
      CHECK(!read.error().message.empty(), "an error has a text");
      continue;
    }
    CHECK(size >= bytes, "a page is not longer than its file");
    const std::string other = store.name(2);
    CHECK(bool(store.write(other, tokens, {page.data(), bytes})), "what was read can be written");
    Guarded again(bytes);
    CHECK(bool(store.read(other, tokens, {again.data(), bytes})), "what is written reads back");
    CHECK(std::memcmp(page.data(), again.data(), bytes) == 0, "to the same bytes");
  }
  CHECK(!store.read("../" + name, tokens, {}), "a name is not a path");
  return 0;
}
