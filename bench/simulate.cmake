panpipe_benchmark(simulate
  SOURCES bench_simulate.cpp ${CMAKE_SOURCE_DIR}/tests/sim/graph_maker.cpp
  LIBRARIES panpipe::sim panpipe::lowering)
