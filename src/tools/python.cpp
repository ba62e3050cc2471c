// Finding Python and becoming it; see python.h.
#include "tools/python.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "tools/choose.h"

namespace trine::tools {

namespace {

namespace fs = std::filesystem;

fs::path self() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none);
}

// The folder under whose name the command was called: an environment's, where the file itself is a link to a build.
fs::path called_in() {
  std::string name;
  std::getline(std::ifstream("/proc/self/cmdline"), name, '\0');
  if (name.find('/') != std::string::npos) return fs::path(name).parent_path();
  const std::string path = getenv_or("PATH");
  for (std::string_view folder : split(path, ':'))
    if (const fs::path p = fs::path(folder) / name; !name.empty() && access(p.c_str(), X_OK) == 0)
      return p.parent_path();
  return self().parent_path();
}

// The command's own Python, whether or not its environment is activated, lies beside it, or has the version it was
// built for; a build folder's is the virtual environment in use, or the repository's.
std::string find_python() {
  const fs::path bin = self().parent_path(), called = called_in();
  const std::string active = getenv_or("VIRTUAL_ENV"), version = TRINE_PYTHON_VERSION;
  std::vector<fs::path> candidates;
  if (!version.empty()) candidates.push_back(bin / cat("python", version));
  if (fs::exists(called.parent_path() / "pyvenv.cfg")) candidates.push_back(called / "python");
  if (!active.empty()) candidates.push_back(fs::path(active) / "bin/python");
  if (version.empty()) candidates.push_back(bin.parent_path() / ".venv/bin/python");
  for (const fs::path& p : candidates)
    if (access(p.c_str(), X_OK) == 0) return p.string();
  return version.empty() ? "python3" : cat("python", version);
}

}  // namespace

Result<Exit> become_python(const Command& command, const Args& args, std::string_view module) {
  // Says what is missing in our words, with our exit code. Ctrl-C ends it as it ends any command: what is imported, of
  // which much is others' C++, does not always survive an exception in its middle.
  const std::string start =
      cat("import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\ntry:\n  from trine.command import "
          "main\nexcept ModuleNotFoundError as e:\n  print(f'trine ",
          command.name, ": {sys.executable} has no {e.name}; install trine there', file=sys.stderr)\n",
          "  sys.exit(5)\nsys.exit(main(sys.argv.pop()))\n");
  Json typed = Json::array();
  for (const std::string& word : args.typed()) typed.push(word);
  const Json asked = args.json()
                         .set("command", command.name)
                         .set("module", module.empty() ? command.python : module)
                         .set("typed", std::move(typed))
                         .set("trine", self().string());
  std::vector<std::string> line = {find_python(), "-c", start, asked.text()};
  std::vector<char*> pointers;
  for (std::string& word : line) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return fail(Code::io, cat("could not start ", line[0], ": ", std::strerror(errno)));
}

}  // namespace trine::tools
