// panpipe import kineto: reads a trace of PyTorch's profiler by groups of kernels, compares it with a prediction, and extracts
// measured collectives.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace panpipe::cli {

void add_kineto_import(CLI::App& sub, std::function<int()>& run);

}  // namespace panpipe::cli
