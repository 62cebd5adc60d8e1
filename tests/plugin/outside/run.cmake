# Installs the SDK alone into a fresh prefix, then configures, builds and installs the project beside
# this file against it. BUILD: this build tree. WORK: a folder to use up.
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --component PluginSDK --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_INSTALL_PREFIX=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} --install ${WORK}/build --strip)
foreach(file acme_clock.so acme_clock.keplugin.json python/acme_clock/__init__.py)
  foreach(root ${WORK}/build ${prefix})
    if(NOT EXISTS ${root}/lib/kernel_evolve/plugins/acme_clock/${file})
      message(FATAL_ERROR "${root} has no ${file}")
    endif()
  endforeach()
endforeach()
# The manifest still fits the stripped library.
run(${prefix}/lib/kernel_evolve/ke_manifest
    ${prefix}/lib/kernel_evolve/plugins/acme_clock/acme_clock.so ${WORK}/again.json acme_clock)
run(${CMAKE_COMMAND} -E compare_files ${WORK}/again.json
    ${prefix}/lib/kernel_evolve/plugins/acme_clock/acme_clock.keplugin.json)
