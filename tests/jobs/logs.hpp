// Lines of training logs, and what is read of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "jobs/log/read_log.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {

// Gives the text in pieces, as a pipe does.
inline LogLines::Source pieces_of(std::string text, std::size_t most = 1 << 20) {
  return [text = std::move(text), most, at = std::size_t{0}](char* buffer, std::size_t size) mutable {
    const std::size_t count = std::min({size, most, text.size() - at});
    std::memcpy(buffer, text.data() + at, count);
    at += count;
    return count;
  };
}
inline TrainingLog log_of(const std::string& text, int run = 0) { return read_training_log(pieces_of(text), "train.log", run); }
inline std::string log_fault(const std::string& text, int run = 0) {
  return fault_of([&] { log_of(text, run); });
}

inline std::string megatron_line(int number, double milliseconds, int skipped = 0) {
  return fmt::format(
      " [2024-04-06 02:59:{:02}] iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
      "throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.600000E-06 | global batch size:   128 | lm loss: 1.825991E+00 "
      "| "
      "loss scale: 1.0 | grad norm: 1.426 | number of skipped iterations: {:3} | number of nan iterations:   0 |\n",
      number % 60, number, 128 * number, milliseconds, skipped);
}
// Steps from `first` on, of 100 ms, 101 ms, 102 ms and again.
inline std::string megatron_lines(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += megatron_line(first + i, 100 + i % 3);
  return text;
}

}  // namespace panpipe::jobs
