// Shell completion from the option tables: what may follow the words on a command line. The shells' scripts only ask
// this and hand on what it says. Files are the shell's own business: it is told that some are wanted, and which.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trine::tools {

struct Candidate {
  std::string text, meaning = {};  // the whole word; what it is, where the table says so
};

struct Completion {
  std::vector<Candidate> words = {};
  bool files = false, folders = false;
  std::string_view endings = {};  // of the files, " "-separated; empty: all
  bool goes_on = false;           // more may follow without a space: a list
};

// `line` begins with the command's name; its last word, which may be empty, is being typed.
Completion complete(std::span<const std::string> line);

inline constexpr std::string_view kShells = "bash zsh fish";
std::string completion_script(std::string_view shell);
// Lines for the script of `shell`: a word each, and ":files ENDINGS", ":folders" or ":goes-on".
std::string completion_text(std::string_view shell, const Completion& found, std::string_view typing);

}  // namespace trine::tools
