// The scripts that the shells load, and the lines they read. Each asks `trine completion SHELL --word …` what may
// follow; no name of an option or command is in them but the names the command is started by.
#include "base/text.h"
#include "tools/cli.h"
#include "tools/complete.h"

namespace trine::tools {

namespace {

// bash breaks words at = and : (COMP_WORDBREAKS), so the line is cut at blanks here, and answers lack what lies before
// the last break.
constexpr std::string_view kBash = R"sh(# bash completion for trine, written by `trine completion bash`.
# Load it with:  source <(trine completion bash)
_trine() {
  local line=${COMP_LINE:0:COMP_POINT} row ending at trine=trine
  local -a words endings
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  [[ ${words[0]} == */trine ]] && trine=${words[0]}
  at=${words[-1]##*[=:]}
  COMPREPLY=()
  while IFS= read -r row; do
    case $row in
      :goes-on) compopt -o nospace ;;
      :files* | :folders)
        compopt -o filenames
        read -ra endings <<<"${row#:*s}"
        [[ $row == :files ]] && endings=("")
        while IFS= read -r row; do COMPREPLY+=("$row"); done < <(
          compgen -d -- "$at"
          for ending in "${endings[@]}"; do
            compgen -f -X "!*$ending" -- "$at" | while IFS= read -r row; do [[ -d $row ]] || echo "$row"; done
          done) ;;
      *) COMPREPLY+=("$row") ;;
    esac
  done < <("$trine" completion bash "${words[@]/#/--word=}" 2>/dev/null)
}
complete -F _trine )sh";

constexpr std::string_view kZsh = R"sh(
# zsh completion for trine, written by `trine completion zsh`.
# Put it as _trine into a folder of $fpath, or load it with:  source <(trine completion zsh)
_trine() {
  local row trine=trine
  local -a rows found suffix files
  [[ $words[1] == */trine ]] && trine=$words[1]
  rows=("${(@f)$("$trine" completion zsh "${(@)words[1,CURRENT]/#/--word=}" 2>/dev/null)}")
  for row in $rows; do
    case $row in
      :goes-on) suffix=(-S '') ;;
      :files) files=(_files) ;;
      :files*) files=(_files -g "*(${(j:|:)${=row#:files }})(-.)") ;;
      :folders) files=(_files -/) ;;
      *) found+=("$row") ;;
    esac
  done
  (( $#found )) && _describe -V trine found $suffix
  (( $#files )) || return
  compset -P '*='
  $files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _trine "$@"; else compdef _trine )sh";

constexpr std::string_view kFish = R"sh(# fish completion for trine, written by `trine completion fish`.
# Load it with:  trine completion fish | source
function __trine_complete
    set -l typing (commandline -ct)
    set -l words (commandline -opc) "$typing"
    set -l before (string match -r -- '^--[^=]*=' "$typing")
    set -l at (string replace -r -- '^--[^=]*=' '' "$typing")
    for row in (trine completion fish --word=$words 2>/dev/null)
        switch $row
            case ':files*' ':folders'
                set -l endings (string split -n ' ' -- (string replace -r '^:\w+' '' -- $row))
                for path in (__fish_complete_path "$at" | string replace -r '\t.*' '')
                    if string match -q '*/' -- $path
                        echo "$before$path"
                    else if test $row != ':folders'; and test -z "$endings"
                        echo "$before$path"
                    else
                        for ending in $endings
                            string match -q -- "*$ending" $path; and echo "$before$path"; and break
                        end
                    end
                end
            case ':goes-on'
            case '*'
                echo $row
        end
    end
end
)sh";

// The names that start this command: its own, and one for each row with an alias.
Names started_by() {
  Names out = {"trine"};
  for (const Command* c : commands())
    if (!c->alias.empty()) out.emplace_back(c->alias);
  return out;
}

std::string escaped(std::string_view text, char what) {
  std::string out;
  for (const char c : text) out += c == what ? cat('\\', c) : std::string(1, c);
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  const Names names = started_by();
  const std::string all = join(names, " ");
  if (shell == "bash") return cat(kBash, all, "\n");
  if (shell == "zsh") return cat("#compdef ", all, kZsh, all, "; fi\n");
  std::string out(kFish);
  for (const std::string& name : names) out += cat("complete -c ", name, " -f -a '(__trine_complete)'\n");
  return out;
}

std::string completion_text(std::string_view shell, const Completion& found, std::string_view typing) {
  const size_t broken = shell == "bash" ? typing.find_last_of("=:") + 1 : 0;  // npos + 1 is 0
  std::string out;
  if (found.goes_on) out += ":goes-on\n";
  for (const Candidate& c : found.words) {
    const std::string text = c.text.substr(broken);
    if (shell == "zsh")
      out += cat(escaped(text, ':'), c.meaning.empty() ? "" : ":", c.meaning, "\n");
    else
      out += cat(text, shell == "fish" && !c.meaning.empty() ? cat("\t", c.meaning) : "", "\n");
  }
  if (found.files) out += cat(":files", found.endings.empty() ? "" : " ", found.endings, "\n");
  if (found.folders) out += ":folders\n";
  return out;
}

}  // namespace trine::tools
