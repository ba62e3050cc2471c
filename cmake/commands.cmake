# The `trine` command. The table of subcommands is whatever src/tools/commands/*.cpp files there are, by name; a row with
# `.alias = "neuron-x"` is started by that name too. A wheel also carries completion scripts and man pages, which the
# command prints from the same table.
file(GLOB command_files CONFIGURE_DEPENDS src/tools/commands/*.cpp)
set(declared "")
set(listed "")
set(aliases "")
foreach(path ${command_files})
  get_filename_component(stem ${path} NAME_WE)
  string(APPEND declared "extern const Command command_${stem};\n")
  string(APPEND listed "    &command_${stem},\n")
  file(STRINGS ${path} alias REGEX "^ *\\.alias = \"" LIMIT_COUNT 1)
  if(alias)
    string(REGEX REPLACE ".*\"([^\"]+)\".*" "\\1" alias "${alias}")
    list(APPEND aliases ${alias})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  endif()
endforeach()
file(GLOB model_files CONFIGURE_DEPENDS python/trine/models/configs/*.json)
set(models "")
foreach(path ${model_files})
  get_filename_component(stem ${path} NAME_WLE)
  string(APPEND models "      \"${stem}\",\n")
endforeach()
file(CONFIGURE OUTPUT commands.cpp CONTENT "// Written by cmake/commands.cmake from file names: src/tools/commands/*.cpp, and the models' configurations.
#include \"tools/cli.h\"

namespace trine::tools {

${declared}
static const Command* const kCommands[] = {
${listed}};
std::span<const Command* const> commands() { return kCommands; }

std::vector<std::string> model_names() {
  return {
${models}  };
}

}  // namespace trine::tools
")
target_sources(trine_tools PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/commands.cpp)
target_compile_definitions(trine_tools PRIVATE TRINE_VERSION="${PROJECT_VERSION}")
# A wheel's command runs the Python that the wheel is for; one in a build folder looks for it. Said to one file, so that
# both share the compiler cache.
if(SKBUILD AND TRINE_PYTHON)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  set(version "${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}")
else()
  set(version "")
endif()
set_source_files_properties(src/tools/python.cpp PROPERTIES COMPILE_DEFINITIONS "TRINE_PYTHON_VERSION=\"${version}\"")

add_executable(trine src/tools/main.cpp)
target_link_libraries(trine PRIVATE ${trine_folders})
foreach(alias ${aliases})
  configure_file(src/tools/neuron-name ${alias} COPYONLY)
endforeach()
configure_file(src/tools/neuron-monitor-prometheus.py neuron-monitor-prometheus.py COPYONLY)

if(SKBUILD)
  install(TARGETS trine DESTINATION ${SKBUILD_SCRIPTS_DIR})
  foreach(alias ${aliases})
    install(PROGRAMS src/tools/neuron-name DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME ${alias})
  endforeach()
  install(PROGRAMS src/tools/neuron-monitor-prometheus.py DESTINATION ${SKBUILD_SCRIPTS_DIR})
  set(share ${CMAKE_CURRENT_BINARY_DIR}/share)
  set(scripts bash bash-completion/completions/trine zsh zsh/site-functions/_trine fish fish/vendor_completions.d/trine.fish)
  install(CODE "
    set(trine ${CMAKE_CURRENT_BINARY_DIR}/trine)
    set(scripts ${scripts})
    file(REMOVE_RECURSE ${share})
    file(MAKE_DIRECTORY ${share}/man/man1)
    execute_process(COMMAND \${trine} help --output ${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
    while(scripts)
      list(POP_FRONT scripts shell path)
      cmake_path(GET path PARENT_PATH folder)
      file(MAKE_DIRECTORY ${share}/\${folder})
      execute_process(COMMAND \${trine} completion \${shell} OUTPUT_FILE ${share}/\${path} COMMAND_ERROR_IS_FATAL ANY)
    endwhile()")
  install(DIRECTORY ${share} DESTINATION ${SKBUILD_DATA_DIR})
endif()
