panpipe_benchmark(schedule SOURCES bench_schedule.cpp LIBRARIES panpipe::schedule)
