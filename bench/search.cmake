panpipe_benchmark(search SOURCES bench_search.cpp LIBRARIES panpipe::schedule)
