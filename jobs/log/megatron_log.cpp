// What Megatron-LM, its forks, Megatron-DeepSpeed and GPT-NeoX print: training_log() and _print_args() of NVIDIA/Megatron-LM.
#include <algorithm>
#include <cmath>

#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

constexpr long long kMostArguments = 5000;

struct Iteration {
  long long number = 0, planned = 0;
};

// "iteration       43/     100 |", and "iteration=  43/ 100 |" of Argonne's fork.
std::optional<Iteration> iteration_of(std::string_view line) {
  constexpr std::string_view kWord = "iteration";
  for (std::size_t at = position_in(line, kWord); at != std::string_view::npos;) {
    std::string_view rest = line.substr(at + kWord.size());
    if (!rest.empty() && (rest[0] == ' ' || rest[0] == '=')) {
      const std::size_t digit = rest.find_first_not_of(" =");
      if (digit != std::string_view::npos && is_digit(rest[digit])) {
        const auto number = count_after(rest.substr(digit), "");
        const auto planned = count_after(rest.substr(digit, rest.find('|') - digit), "/", true);
        return number ? std::optional(Iteration{*number, planned.value_or(0)}) : std::nullopt;
      }
    }
    const std::size_t next = position_in(rest, kWord);
    at = next == std::string_view::npos ? next : at + kWord.size() + next;
  }
  return std::nullopt;
}

bool is_no_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.starts_with("nan") || text.starts_with("NaN") || text.starts_with("inf");
}

// Seconds, and whether a bar or a slash (a mean follows) ends the number; not a number where the line states that.
std::optional<double> seconds_of(std::string_view line) {
  struct Spelling {
    std::string_view words;
    double unit;
  };
  for (const Spelling& known : {Spelling{"elapsed time per iteration (ms):", 1e-3},
                                {"elapsed time per iteration (s):", 1},
                                {"elapsed_time_per_iteration_ms=", 1e-3}})
    if (const auto number = number_after(line, known.words))
      return *number * known.unit;
    else if (is_no_number(after(line, known.words)))
      return std::nan("");
  return std::nullopt;
}

class MegatronLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    const std::string_view text = line.text;
    if (holds(text, "elapsed")) return read_step(line, log);
    if (in_arguments_) return read_argument(text, log);
    if (holds(text, "memory (MB)")) return read_memory(text, log);
    if (holds(text, "- arguments -")) return begin_arguments(line, log);
    if (holds(text, "padded vocab (size:")) return read_vocabulary(text, log);
    if (holds(text, "saving checkpoint at iteration")) return log.checkpoint();
    if (holds(text, "Evaluating ") || holds(text, "validation loss at")) return log.evaluation();
    if (holds(text, "using world size:")) read_world(text, log);
  }
  std::string_view trainer() const override { return neox_ ? "gpt-neox" : deepspeed_ ? "megatron-deepspeed" : ""; }

 private:
  void read_step(const LogLine& line, RunLog& log) {
    const auto iteration = iteration_of(line.text);
    if (!iteration && !holds(line.text, "iteration")) return;
    const auto seconds = seconds_of(line.text);
    if (!iteration || !seconds) {
      if (holds(line.text, "elapsed time per iteration (") && holds(line.text, "consumed")) log.cut_line();
      return;
    }
    in_arguments_ = false;
    neox_ |= holds(line.text, "approx flops per GPU:");
    deepspeed_ |= holds(line.text, "consumed tokens:") || holds(line.text, "consumed_tokens=");
    long long skipped = 0;
    for (const char* words : {"number of skipped iterations:", "number_of_skipped_iterations="})
      if (const auto count = count_after(line.text, words)) skipped = *count;
    log.step({.number = iteration->number,
              .seconds = *seconds,
              .samples = count_after(line.text, "global batch size:").value_or(0),
              .planned = iteration->planned,
              .skipped = skipped > 0,
              .rank = line.rank});
  }

  // Its "MB" are 2^20 bytes.
  static void read_memory(std::string_view text, RunLog& log) {
    if (const auto most = number_after(text, "| max allocated:")) log.peak(*most * kMebibyte, PeakKind::Allocated);
  }

  static void read_world(std::string_view text, RunLog& log) {
    if (const auto gpus = count_after(text, "using world size:"); gpus && *gpus <= 1 << 24)
      log.job().gpus = static_cast<int>(*gpus);
  }

  void begin_arguments(const LogLine& line, RunLog& log) {
    if (holds(line.text, "end of arguments")) return;
    log.begin_job("megatron-core", line.number + 1);
    in_arguments_ = true, arguments_ = 0;
    front_ = line.text.find_last_not_of('-', position_in(line.text, "- arguments -")) + 1;
  }

  // "  num_layers ...................................... 24". Other lines between them are other processes'.
  void read_argument(std::string_view text, RunLog& log) {
    StatedJob& job = log.job();
    if (holds(text, "end of arguments") || ++arguments_ > kMostArguments ||
        job.text.size() + text.size() + 1 > RunLog::kMostText) {
      in_arguments_ = false;
      return;
    }
    // What a collector of logs wrote before the heading, it writes before each line.
    text = text.substr(std::min(front_, text.size()));
    if (text.ends_with(".default") || text.ends_with(".updated")) job.trainer = "gpt-neox", neox_ = true;
    job.text.append(text).push_back('\n');
    const std::string_view value = after(text, ".. ");
    const std::string_view name = after(text.substr(0, text.find(" .")), "");
    const auto number = count_after(value, "", true);
    if (name == "deepspeed" && value == "True") deepspeed_ = true;
    if (!number) return;
    if (name == "world_size" && *number <= 1 << 24) job.gpus = static_cast<int>(*number);
    if (name == "global_batch_size") job.batch = *number;
    if (name == "seq_length") job.sequence = *number;
  }

  // " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)"
  static void read_vocabulary(std::string_view text, RunLog& log) {
    StatedJob& job = log.job();
    const auto padded = count_after(text, "(new size:");
    if (!padded || job.text.empty() || job.text.size() > RunLog::kMostText / 2) return;
    job.text += "  padded_vocab_size ... " + std::to_string(*padded) + "\n";
  }

  bool in_arguments_ = false, deepspeed_ = false, neox_ = false;
  long long arguments_ = 0;
  std::size_t front_ = 0;
};

}  // namespace

std::unique_ptr<LogFormat> megatron_log() { return std::make_unique<MegatronLog>(); }

}  // namespace panpipe::jobs
