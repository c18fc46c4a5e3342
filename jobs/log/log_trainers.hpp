// The trainers whose logs are recognised, one row each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "jobs/log/log_lines.hpp"
#include "jobs/log/run_log.hpp"

namespace panpipe::jobs {

// Reads the lines of one trainer into `log`. Lines of others leave it as it is.
class LogFormat {
 public:
  virtual ~LogFormat() = default;
  virtual void read(const LogLine& line, RunLog& log) = 0;
  // A refinement of the row's name, by what was read; empty: the row's own.
  virtual std::string_view trainer() const { return {}; }
};

struct LogTrainer {
  std::string_view name;       // as in scenarios/trainers/
  std::string_view step_line;  // what names a step, for messages
  std::unique_ptr<LogFormat> (*make)();
};

// A trainer that prints its own lines in addition to those of a library below it stands before that library: the first row with
// steps is the log's trainer.
const std::vector<LogTrainer>& log_trainers();

std::unique_ptr<LogFormat> megatron_log();
std::unique_ptr<LogFormat> nemo_log();
std::unique_ptr<LogFormat> nanotron_log();
std::unique_ptr<LogFormat> torchtitan_log();
std::unique_ptr<LogFormat> composer_log();
std::unique_ptr<LogFormat> deepspeed_log();
std::unique_ptr<LogFormat> huggingface_log();

}  // namespace panpipe::jobs
