# Writes OUT, a C++ file that defines trine::NAMESPACE::FUNCTION() returning the FILES (a list joined by '|') as raw strings.
# Run by the build: cmake -DOUT=… -DNAMESPACE=… -DFUNCTION=… -DFILES=… -P embed.cmake
string(REPLACE "|" ";" files "${FILES}")
set(rows "")
foreach(path IN LISTS files)
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" text)
  string(APPEND rows "    {\"${name}\", R\"trine(${text})trine\"},\n")
endforeach()
file(WRITE "${OUT}" "// Written by cmake/embed.cmake; edit the data files instead.
#include <span>

#include \"base/embedded.h\"

namespace trine::${NAMESPACE} {

static const EmbeddedFile kFiles[] = {
${rows}};
std::span<const EmbeddedFile> ${FUNCTION}() { return kFiles; }

}  // namespace trine::${NAMESPACE}
")
