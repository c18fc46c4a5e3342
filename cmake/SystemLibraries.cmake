# Those that every program is linked with; benchmarks and executor look for their own.
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)
find_package(yaml-cpp 0.7 REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)  # its name before 0.8
endif()
find_package(CLI11 2.1 REQUIRED)
find_package(ZLIB 1.2.9 REQUIRED)  # crc32_z
if(PANPIPE_SIM)
  find_package(SimGrid 3.32 REQUIRED)
endif()
if(BUILD_TESTING)
  find_package(GTest 1.12 REQUIRED)
endif()
