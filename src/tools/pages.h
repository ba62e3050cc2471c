// The option tables as man pages, and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/cli.h"

namespace trine::tools {

struct ManPage {
  std::string name, text;  // "trine-ls.1"; roff
};
std::vector<ManPage> man_pages();  // trine.1, a page for each command, and one line for each alias
std::string man_page(const Command& command);
std::string general_man_page();

Json command_json(const Command& command);

}  // namespace trine::tools
