// The trine command; everything is in cli.cpp and the command_*.cpp rows.
#include <cstdio>
#include <string>
#include <vector>

#include "tools/cli.h"

int main(int argc, char** argv) {
  const std::vector<std::string> typed(argv + (argc > 0), argv + argc);
  const int code = trine::tools::run_command_line(argc > 0 ? argv[0] : "trine", typed);
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return static_cast<int>(trine::tools::Exit::outside);
  return code;
}
