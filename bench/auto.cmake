panpipe_benchmark(auto SOURCES bench_auto.cpp LIBRARIES panpipe::planner)
