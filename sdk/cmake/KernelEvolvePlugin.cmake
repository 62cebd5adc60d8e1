# kernel_evolve_add_plugin(<id> SOURCES <file>... [LIBRARIES <target>...]
#                          [OUTPUT_DIRECTORY <dir>] [NO_INSTALL])
#
# Builds one plugin, target <id>: <dir>/<id>/<id>.so, its manifest <id>.keplugin.json (made by
# running the fresh plugin in a child process: a plugin that no host would take fails the build) and,
# where the source folder has python/, that folder beside them. <dir> is
# lib/kernel_evolve/plugins in the project's build tree, and the same under the install prefix.
#
# The library exports ke_plugin_query and nothing else. Hidden visibility is not enough for that:
# g++ marks inline variables and function statics as unique to the process, and two plugins that
# carry the same one would share it.
include_guard(GLOBAL)

function(kernel_evolve_add_plugin id)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "OUTPUT_DIRECTORY" "SOURCES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "kernel_evolve_add_plugin(${id}): give SOURCES and, if needed, LIBRARIES; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT id MATCHES "^[a-z][a-z0-9_-]*$")
    message(FATAL_ERROR "kernel_evolve_add_plugin(${id}): an id has lower-case letters, digits, "
                        "'_' and '-', and starts with a letter")
  endif()
  set(plugins lib/kernel_evolve/plugins)
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${plugins})
  endif()
  set(folder ${arg_OUTPUT_DIRECTORY}/${id})
  set(manifest ${folder}/${id}.keplugin.json)
  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)

  add_library(${id} MODULE ${arg_SOURCES})
  target_link_libraries(${id} PRIVATE KernelEvolve::PluginSDK ${arg_LIBRARIES})
  set_target_properties(${id} PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME ${id} LIBRARY_OUTPUT_DIRECTORY ${folder}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON LINK_DEPENDS ${exports})
  target_compile_options(${id} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  # The build id is a hash of the content that survives stripping: the manifest is checked by it.
  target_link_options(${id} PRIVATE -Wl,--version-script=${exports} -Wl,--build-id=sha1)
  # A sanitizer's runtime lives in the program, so its symbols are undefined here by design.
  if(NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${KERNEL_EVOLVE_SANITIZE}" MATCHES
     "sanitize|address|thread|undefined|memory")
    target_link_options(${id} PRIVATE -Wl,-z,defs)
  endif()

  add_custom_command(TARGET ${id} POST_BUILD VERBATIM
    COMMAND KernelEvolve::ke_manifest $<TARGET_FILE:${id}> ${manifest} ${id}
    COMMENT "Asking plugin ${id} what it offers")

  # CONFIGURE_DEPENDS: a python/ folder that appears later is found without a manual re-run.
  file(GLOB python CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/*)
  if(python)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/python ${folder}/python SYMBOLIC)
  endif()

  if(arg_NO_INSTALL)
    return()
  endif()
  set(destination ${plugins}/${id})
  install(TARGETS ${id} LIBRARY DESTINATION ${destination})
  install(FILES ${manifest} DESTINATION ${destination})
  if(python)
    install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/python DESTINATION ${destination}
            PATTERN "__pycache__" EXCLUDE)
  endif()
endfunction()
