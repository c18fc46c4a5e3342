panpipe_benchmark(plan SOURCES bench_plan.cpp LIBRARIES panpipe::planner fmt::fmt)
target_compile_definitions(bench_plan PRIVATE PANPIPE_SCENARIOS="${CMAKE_SOURCE_DIR}/scenarios")
