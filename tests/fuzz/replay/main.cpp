// Runs a fuzz target over the files and folders named on the command line, without libFuzzer, each input before a page
// that may not be touched. ctest uses it to replay the kept corpus under any compiler, and some inputs made of it:
//   fuzz_x [--mutations N] [--seconds S] [--seed K] FILE-OR-FOLDER...
// An empty corpus is an error, not a pass. An input that ends the process is kept as ./crash-<target>.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/guarded.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

constexpr size_t kLongest = 1 << 16;

struct Asked {
  int64_t mutations = 0;
  double seconds = 0;
  uint64_t seed = 1;
  std::vector<fs::path> files = {};
};

std::string crash_name;
const uint8_t* current = nullptr;
size_t current_size = 0;

void keep(int number) {
  const int file = ::open(crash_name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && ::write(file, current, current_size) == ssize_t(current_size)) ::close(file);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

Asked read_line(int argc, char** argv) {
  Asked out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && i + 1 < argc) {
      const char* value = argv[++i];
      if (word == "--mutations") out.mutations = std::atoll(value);
      if (word == "--seconds") out.seconds = std::atof(value);
      if (word == "--seed") out.seed = uint64_t(std::atoll(value));
      continue;
    }
    std::error_code failed;
    fs::directory_iterator folder(word, failed);
    if (failed)
      out.files.emplace_back(word);
    else
      for (const auto& entry : folder) out.files.push_back(entry.path());
  }
  std::sort(out.files.begin(), out.files.end());
  return out;
}

void run(const std::string& bytes) {
  Guarded memory(bytes.size());
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  current = reinterpret_cast<const uint8_t*>(memory.data());
  current_size = bytes.size();
  LLVMFuzzerTestOneInput(current, current_size);
}

// One of the ways in which files are damaged, or made to.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string out = corpus_[below(corpus_.size())];
    for (size_t n = 1 + below(4); n > 0; --n) change(out);
    if (out.size() > kLongest) out.resize(kLongest);
    return out;
  }

 private:
  size_t below(size_t n) { return n ? size_t(random_() % n) : 0; }

  void change(std::string& s) {
    constexpr int64_t kNumbers[] = {0, 1, -1, 127, 128, 255, 256, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    constexpr const char* kTexts[] = {"0",  "-1", "4294967296", "9223372036854775807", "1e400", "nan", "\"\"",
                                      "[]", "{}", "\n"};
    const size_t at = below(s.size() + 1), size = below(std::min<size_t>(s.size() - at, 64) + 1);
    switch (below(11)) {
      case 0:
        if (at < s.size()) s[at] = char(s[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < s.size()) s[at] = char(random_());
        break;
      case 2:
        s.erase(at, size);
        break;
      case 3:
        s.insert(at, s.substr(below(s.size() + 1), size));
        break;
      case 4: {
        const int64_t number = kNumbers[below(std::size(kNumbers))];
        const size_t width = size_t{1} << below(4);
        if (at + width <= s.size()) std::memcpy(s.data() + at, &number, width);
        break;
      }
      case 5:
        replace_number(s, at, kTexts[below(std::size(kTexts))]);
        break;
      case 6:
        s.resize(at);
        break;
      case 7:
      case 8:
        replace_everywhere(s, at);
        break;
      case 9:
        replace_word(s, at);
        break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        const size_t from = below(other.size() + 1);
        s.replace(at, size, other, from, below(other.size() - from + 1));
      }
    }
  }

  static void replace_number(std::string& s, size_t at, const char* by) {
    const size_t begin = s.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = s.find_first_not_of("0123456789", begin);
    s.replace(begin, (end == std::string::npos ? s.size() : end) - begin, by);
  }

  // A number by another, wherever it stands: dims that agreed still do.
  void replace_everywhere(std::string& s, size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    const size_t begin = s.find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    const std::string old = s.substr(begin, s.find_first_not_of(kDigits, begin) - begin);
    const std::string by = std::to_string(below(4) ? below(20) : below(300));
    for (size_t i = 0; (i = s.find(old, i)) != std::string::npos && s.size() < kLongest; i += by.size() + 1) {
      const bool is_whole = (i == 0 || !std::isalnum(uint8_t(s[i - 1]))) && s[i == 0 ? 0 : i - 1] != '%' &&
                            (i + old.size() == s.size() || !std::isdigit(uint8_t(s[i + old.size()])));
      if (is_whole) s.replace(i, old.size(), by);
    }
  }

  // The name of an op by that of another.
  void replace_word(std::string& s, size_t at) {
    const auto word_after = [](const std::string& text, size_t from) -> std::pair<size_t, size_t> {
      const size_t sign = text.find("= ", from);
      if (sign == std::string::npos) return {0, 0};
      return {sign + 2, text.find_first_of(" (", sign + 2) - sign - 2};
    };
    const std::string& other = corpus_[below(corpus_.size())];
    const auto [to, to_size] = word_after(s, at);
    const auto [from, from_size] = word_after(other, below(other.size() + 1));
    if (to && from && to_size < 64 && from_size < 64) s.replace(to, to_size, other, from, from_size);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const Asked asked = read_line(argc, argv);
  crash_name = "crash-" + fs::path(argv[0]).filename().string();
  for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(number, keep);
  std::vector<std::string> corpus;
  for (const auto& path : asked.files) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    std::fprintf(stderr, "%s\n", path.c_str());  // the last line before a crash names the input
    run(corpus.back());
  }
  std::printf("%zu inputs replayed\n", corpus.size());
  if (corpus.empty()) return 1;
  std::fprintf(stderr, "inputs made of them, seed %llu\n", static_cast<unsigned long long>(asked.seed));
  Mutator mutator(corpus, asked.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(asked.seconds);
  int64_t made = 0;
  while (made < asked.mutations || (asked.seconds > 0 && std::chrono::steady_clock::now() < end)) {
    run(mutator.next());
    ++made;
  }
  std::printf("%lld made of them\n", static_cast<long long>(made));
  return 0;
}
