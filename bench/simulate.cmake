panpipe_benchmark(simulate SOURCES bench_simulate.cpp LIBRARIES panpipe::sim panpipe::lowering)
