panpipe_benchmark(compare SOURCES bench_compare.cpp LIBRARIES panpipe::compare panpipe::result panpipe::estimate fmt::fmt)
target_compile_definitions(bench_compare PRIVATE PANPIPE_SCENARIOS="${CMAKE_SOURCE_DIR}/scenarios")
