# SimGrid from Debian has a .pc file and no CMake package. Makes SimGrid::SimGrid.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PC_SIMGRID QUIET simgrid)
endif()
find_path(SimGrid_INCLUDE_DIR simgrid/s4u.hpp HINTS ${PC_SIMGRID_INCLUDE_DIRS})
find_library(SimGrid_LIBRARY simgrid HINTS ${PC_SIMGRID_LIBRARY_DIRS})
if(SimGrid_INCLUDE_DIR AND EXISTS ${SimGrid_INCLUDE_DIR}/simgrid/version.h)
  file(STRINGS ${SimGrid_INCLUDE_DIR}/simgrid/version.h lines REGEX "define SIMGRID_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*" "\\1" major "${lines}")
  string(REGEX REPLACE ".*MINOR ([0-9]+).*" "\\1" minor "${lines}")
  set(SimGrid_VERSION ${major}.${minor})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid
  REQUIRED_VARS SimGrid_LIBRARY SimGrid_INCLUDE_DIR VERSION_VAR SimGrid_VERSION
  REASON_FAILURE_MESSAGE "run make setup, or install libsimgrid-dev, or configure with -DPANPIPE_SIM=OFF")
if(SimGrid_FOUND AND NOT TARGET SimGrid::SimGrid)
  add_library(SimGrid::SimGrid UNKNOWN IMPORTED)
  set_target_properties(SimGrid::SimGrid PROPERTIES IMPORTED_LOCATION ${SimGrid_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SimGrid_INCLUDE_DIR} INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${SimGrid_INCLUDE_DIR})
endif()
