panpipe_benchmark(piper SOURCES bench_piper.cpp ${CMAKE_SOURCE_DIR}/tests/planner/piper/look_alikes.cpp LIBRARIES panpipe::planner)
