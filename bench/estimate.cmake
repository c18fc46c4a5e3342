panpipe_benchmark(estimate SOURCES bench_estimate.cpp LIBRARIES panpipe::estimate)
