# ECharts for the pages of python/trine/pages, from the wheel of panel (setup/assets.txt): beside their modules in the
# source tree, into the package of a wheel. Without panel the build goes on, and a page says what is missing.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('panel').submodule_search_locations[0])"
                OUTPUT_VARIABLE panel_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_panel)
file(GLOB echarts "${panel_folder}/dist/bundled/echarts/echarts@6.*/dist/echarts.min.js")
if(no_panel OR NOT echarts)
  message(WARNING "panel is not installed: pages will lack ECharts; pip install --no-deps -r setup/assets.txt")
elseif(SKBUILD)
  install(FILES ${echarts} DESTINATION trine/pages/assets/vendor)
else()
  file(COPY ${echarts} DESTINATION ${CMAKE_SOURCE_DIR}/python/trine/pages/assets/vendor)
endif()
