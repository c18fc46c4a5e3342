// panpipe import kineto: a trace of PyTorch's profiler, by groups of kernels, beside a prediction, and as measured collectives.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace panpipe::cli {

void add_kineto_import(CLI::App& sub, std::function<int()>& run);

}  // namespace panpipe::cli
