if(PANPIPE_HAS_EXEC)
  panpipe_benchmark(exec SOURCES bench_exec.cpp LIBRARIES panpipe::engine)
endif()
