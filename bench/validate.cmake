panpipe_benchmark(validate SOURCES bench_validate.cpp LIBRARIES panpipe::validation)
target_compile_definitions(bench_validate PRIVATE PANPIPE_PUBLISHED_RUNS="${PROJECT_SOURCE_DIR}/validation/published/runs.csv")
