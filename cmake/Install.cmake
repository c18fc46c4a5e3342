# What is installed, and where: `cmake --install`, `make install`, the Debian packages (CPack) and the CMake package. Tests and
# benchmarks are not installed, and need not be configured or built.
#
# The programs find their parts by this layout from wherever the prefix lies (base/files/installation.hpp), so it is the same on
# every system; what only people and other tools look for follows GNUInstallDirs.
#   bin/             panpipe, and the Python programs panpipe-export-model, panpipe-make-tokens
#   lib/panpipe/     the module that simulates, the executor and its module
#   share/panpipe/   scenarios, clusters, collectives, devices, frameworks, calibrations, prices, trainers
# Components: program, pages (man pages and completions), simulation, executor, development.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS panpipe RUNTIME DESTINATION bin COMPONENT program)
foreach(tool export_model make_tokens)
  string(REPLACE "_" "-" name panpipe-${tool})
  install(PROGRAMS tools/${tool}.py DESTINATION bin RENAME ${name} COMPONENT program)
endforeach()
install(DIRECTORY scenarios/ DESTINATION share/panpipe COMPONENT program)
install(FILES build/web/panpipe.html DESTINATION share/panpipe/page COMPONENT program OPTIONAL)  # of make web, where it was made
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The program knows its verbs and options: it is asked for its pages when it is installed.
set(pages ${CMAKE_BINARY_DIR}/installed/pages)
install(CODE "
  execute_process(COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:panpipe> -DFOLDER=${pages}
    -P ${CMAKE_SOURCE_DIR}/cmake/package/write_pages.cmake COMMAND_ERROR_IS_FATAL ANY)
  # Debian's zsh looks for what packages bring in a folder of its own.
  set(zsh_folder site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\" AND EXISTS /etc/debian_version)
    set(zsh_folder vendor-completions)
  endif()" COMPONENT pages)
install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT pages)
install(FILES ${pages}/panpipe.bash DESTINATION share/bash-completion/completions RENAME panpipe COMPONENT pages)
install(FILES ${pages}/panpipe.fish DESTINATION share/fish/vendor_completions.d COMPONENT pages)
install(FILES ${pages}/_panpipe DESTINATION "share/zsh/\${zsh_folder}" COMPONENT pages)

if(TARGET panpipe_simgrid)
  # $ORIGIN: a libsimgrid may be put beside it.
  set_target_properties(panpipe_simgrid PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS panpipe_simgrid LIBRARY DESTINATION lib/panpipe COMPONENT simulation)
endif()
if(TARGET panpipe-exec)
  # No search path of its own: the launcher finds LibTorch when it starts it (exec/launch/libtorch.hpp).
  install(TARGETS panpipe-exec RUNTIME DESTINATION lib/panpipe COMPONENT executor)
  install(FILES ${CMAKE_BINARY_DIR}/installed/panpipe-exec.libtorch DESTINATION lib/panpipe COMPONENT executor)
endif()
if(TARGET panpipe_nccl)
  install(TARGETS panpipe_nccl LIBRARY DESTINATION lib/panpipe COMPONENT executor)
endif()

# The cost model for other programs, from a scenario to an estimate: find_package(panpipe), panpipe::estimate or panpipe::result.
set(exported base input schedule run_cost cluster degrees workload profile scenario cost memory plan lowering timeline estimate prediction picture result)
set(exported_targets ${exported})
list(TRANSFORM exported_targets PREPEND panpipe_)
foreach(target ${exported_targets})
  target_compile_features(${target} INTERFACE cxx_std_20)
endforeach()
install(TARGETS ${exported_targets} EXPORT panpipe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/panpipe)
install(DIRECTORY base schedule costmodel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/panpipe COMPONENT development
  FILES_MATCHING PATTERN *.hpp)
install(DIRECTORY present/picture present/result DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/panpipe/present COMPONENT development
  FILES_MATCHING PATTERN *.hpp)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/panpipe)
install(FILES LICENSE DESTINATION share/doc/panpipe-dev RENAME copyright COMPONENT development)
install(EXPORT panpipe NAMESPACE panpipe:: FILE panpipe-targets.cmake DESTINATION ${package_folder} COMPONENT development)
set(data_folder share/panpipe)
configure_package_config_file(cmake/package/panpipe-config.cmake.in installed/panpipe-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS data_folder)
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(installed/panpipe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/installed/panpipe-config.cmake ${CMAKE_BINARY_DIR}/installed/panpipe-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)

# Debian packages, by `cpack -G DEB` or `make deb`: panpipe (all that runs) and panpipe-dev (the CMake package).
set(CPACK_PACKAGE_NAME panpipe)
set(CPACK_PACKAGE_VENDOR "Panpipe")
# Debian wants to know who made a package, by the variables that its own tools read.
set(CPACK_PACKAGE_CONTACT "The Panpipe maintainers")
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pipeline-parallel training: predict, plan, simulate and run")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package/clamp_times.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL program pages simulation executor development)
foreach(component PROGRAM PAGES SIMULATION EXECUTOR)
  set(CPACK_COMPONENT_${component}_GROUP runtime)
endforeach()
set(CPACK_COMPONENT_DEVELOPMENT_GROUP development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# LibTorch is no package of Debian's: it is found when the executor starts, from a Python environment or $PANPIPE_LIBTORCH.
if(PANPIPE_LIBTORCH_FOLDER)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PANPIPE_LIBTORCH_FOLDER}/lib)
endif()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME panpipe)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Predicts the time and memory of a pipeline-parallel training step,
searches the best split and schedule, simulates the links that are shared,
and trains for real to check the prediction.
Training loads LibTorch of the torch package for Python, which is not part of
this package.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME panpipe-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "panpipe (= ${PROJECT_VERSION}), libfmt-dev, libmd-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "The cost model of Panpipe as static libraries with a CMake package:
from a scenario to an estimate.")
include(CPack)
