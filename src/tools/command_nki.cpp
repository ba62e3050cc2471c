// `trine nki`: a kernel's time from its shapes. Kernels are Python, so the work is done by `trine.nki` in the Python of
// the environment; this checks the options, finds that Python and becomes it.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--shapes", "", "A=128x512,…",
     "the arrays: sizes joined by x, with :dtype where it differs; names may be left out"},
    {"--dtype", "", "NAME", "of the arrays (float32)"},
    {"--arg", "", "NAME=VALUE", "any other argument, as Python writes it"},
    {"--grid", "", "N,M", "launch grid: kernel[N, M](…)"},
    kInstance,
    {"--all", "", "", "every piece of advice, not only the first three"},
    {"--sweep", "", "", "a table over all instances"},
    {"--values", "", "", "run it on random inputs too, which finds what only shows when it runs"},
    {"--seed", "", "N", "of the random inputs (0)"},
    {"--trace", "", "FILE", "write every instruction's time as .json or .json.gz, which Perfetto opens"},
    {"--picture", "", "FILE", "draw how busy each engine is, as .svg or .png"},
    kJson,
};

// Says what is missing in our words, with our exit code.
constexpr const char* kStart =
    "import sys\n"
    "try:\n"
    "  from trine.nki.__main__ import main\n"
    "except ModuleNotFoundError as e:\n"
    "  print(f'trine nki: {sys.executable} has no {e.name}; install trine there', file=sys.stderr)\n"
    "  sys.exit(5)\n"
    "sys.exit(main())\n";

// The virtual environment in use, the one beside this build, else what PATH has.
std::string find_python() {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  const std::string active = getenv_or("VIRTUAL_ENV");
  const std::array<fs::path, 2> places = {active.empty() ? fs::path() : fs::path(active) / "bin/python",
                                          self.parent_path().parent_path() / ".venv/bin/python"};
  for (const fs::path& p : places)
    if (!p.empty() && access(p.c_str(), X_OK) == 0) return p.string();
  return "python3";
}

Result<Exit> run_nki(const Args& args) {
  std::vector<std::string> line = {find_python(), "-c", kStart, args.words[0]};
  for (const Option& o : kOptions)
    for (const std::string& value : args.all(o.name))
      line.push_back(o.value.empty() ? std::string(o.name) : cat(o.name, "=", value));
  std::vector<char*> pointers;
  for (std::string& word : line) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return fail(Code::io, cat("could not start ", line[0], ": ", std::strerror(errno)));
}

}  // namespace

extern const Command command_nki;
const Command command_nki{
    .name = "nki",
    .summary = "an NKI kernel's time on an instance, and what bounds it, from shapes alone",
    .words = "FILE.py::KERNEL",
    .words_min = 1,
    .words_max = 1,
    .details =
        "The kernel's name may be left out where the file has one. docs/nki.md lists what of NKI there is.\n\n"
        "  trine nki matmul.py::kernel --shapes lhsT=2048x1024,rhs=2048x2048 --dtype bfloat16 --instance trn2.3xlarge\n"
        "  trine nki softmax.py --shapes x=4096x512 --arg axis=-1 --sweep\n",
    .options = kOptions,
    .run = run_nki,
};

}  // namespace trine::tools
