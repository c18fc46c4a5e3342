panpipe_benchmark(call SOURCES bench_call.cpp LIBRARIES panpipe::prediction)
