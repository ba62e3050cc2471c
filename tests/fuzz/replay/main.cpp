// Runs a fuzz target over the files and folders named on the command line, without libFuzzer.
// ctest uses it to replay the kept corpus under any compiler; an empty corpus is an error, not a pass.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fs = std::filesystem;

static std::vector<fs::path> inputs_of(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    std::error_code failed;
    fs::directory_iterator folder(argv[i], failed);
    if (failed) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : folder) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int main(int argc, char** argv) {
  size_t count = 0;
  for (const auto& path : inputs_of(argc, argv)) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
    std::fprintf(stderr, "%s\n", path.c_str());  // the last line before a crash names the input
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  std::printf("%zu inputs replayed\n", count);
  return count == 0;
}
