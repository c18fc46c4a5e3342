panpipe_benchmark(lowering SOURCES bench_lowering.cpp LIBRARIES panpipe::lowering)
