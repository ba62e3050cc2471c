// Finding Python and becoming it; see python.h.
#include "tools/python.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "tools/choose.h"

namespace trine::tools {

// The virtual environment in use, the one beside this build, else what PATH has.
static std::string find_python() {
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

Result<Exit> become_python(std::string_view module, std::string_view command, const Args& args,
                           std::span<const Option> options, std::vector<std::string> words) {
  // Says what is missing in our words, with our exit code.
  const std::string start =
      cat("import sys\n", "try:\n", "  from ", module, " import main\n", "except ModuleNotFoundError as e:\n",
          "  print(f'trine ", command, ": {sys.executable} has no {e.name}; install trine there', file=sys.stderr)\n",
          "  sys.exit(5)\n", "sys.exit(main())\n");
  std::vector<std::string> line = {find_python(), "-c", start};
  line.insert(line.end(), words.begin(), words.end());
  for (const Option& o : options)
    for (const std::string& value : args.all(o.name))
      line.push_back(o.value.empty() ? std::string(o.name) : cat(o.name, "=", value));
  std::vector<char*> pointers;
  for (std::string& word : line) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return fail(Code::io, cat("could not start ", line[0], ": ", std::strerror(errno)));
}

}  // namespace trine::tools
