// panpipe import memory: what PyTorch's allocator measured, by part, next to a prediction.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace panpipe::cli {

void add_memory_import(CLI::App& sub, std::function<int()>& run);

}  // namespace panpipe::cli
