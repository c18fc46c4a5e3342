#include "jobs/log/read_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/option_fault.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"
#include "jobs/megatron/printed_arguments.hpp"
#include "jobs/nanotron/python_value.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

constexpr const char* kStandardInput = "/dev/stdin";

std::string name_of_file(const std::string& file) { return file == kStandardInput ? "standard input" : file; }

// A file that is read once, from front to back.
class OpenFile {
 public:
  explicit OpenFile(const std::string& file) : file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (file_ >= 0 && file != kStandardInput && ::fstat(file_, &status) == 0 && S_ISCHR(status.st_mode)) {
      ::close(file_);
      throw InputError(fmt::format("{}: this is a device, and a log is a file, a pipe or standard input", file));
    }
    if (file_ < 0) throw InputError(fmt::format("{}: cannot be read: {}", name_of_file(file), std::strerror(errno)));
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(file_); }

  std::size_t read(char* buffer, std::size_t size, const std::string& file) const {
    for (;;) {
      const ssize_t got = ::read(file_, buffer, size);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw InputError(fmt::format("{}: cannot be read: {}", name_of_file(file), std::strerror(errno)));
    }
  }

 private:
  int file_;
};

// How files begin that hold no plain text, and what makes text of them.
struct Packing {
  std::string_view front, name, unpack;
};
constexpr Packing kPackings[] = {{"\x1f\x8b", "packed by gzip", "zcat"},
                                 {"\x28\xb5\x2f\xfd", "packed by zstd", "zstdcat"},
                                 {"\xfd"
                                  "7zXZ",
                                  "packed by xz", "xzcat"},
                                 {"BZh", "packed by bzip2", "bzcat"},
                                 {"PK\x03\x04", "a zip archive", "unzip -p"},
                                 {"\xff\xfe", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
                                 {"\xfe\xff", "in UTF-16", "iconv -f UTF-16 -t UTF-8"}};

struct TrainerReader {
  const LogTrainer* trainer;
  std::unique_ptr<LogFormat> format;
  RunLog log;
};

[[noreturn]] void refuse_log(const std::string& name, bool holds_text) {
  if (!holds_text)
    throw InputError(fmt::format("{}: this is no text, so no log", name), "give what the trainer printed, unpacked");
  std::string help = "a log has lines such as";
  for (const LogTrainer& trainer : log_trainers())
    help += fmt::format("\n  {}: {}", load_trainer(std::string(trainer.name)).title, trainer.step_line);
  throw InputError(fmt::format("{}: no step of a known trainer is in it", name), help);
}

TrainingLog answer_of(const std::string& name, TrainerReader& reader, int run) {
  RunLog& log = reader.log;
  if (!log.answer() && run > 0)
    throw option_fault("run", fmt::format("{}: there is no run {}; the log has {}", name, run, log.runs()));
  TrainingLog answer;
  answer.file = name;
  const std::string_view refined = reader.format->trainer();
  answer.trainer = refined.empty() ? reader.trainer->name : refined;
  answer.title = load_trainer(answer.trainer).title;
  answer.runs = log.runs();
  answer.summaries = log.summaries();
  if (!log.answer() || log.answer()->measured.steps == 0) {
    const std::string steps = fmt::format("{} step{} of {} {} in it", log.steps(), log.steps() == 1 ? "" : "s", answer.title,
                                          log.steps() == 1 ? "is" : "are");
    if (const auto stated = log.impossible_s())
      throw InputError(
          fmt::format("{}: {}, and none has a time that a step can take: the last states {} s", name, steps, *stated),
          "times are from 0 to 10^6 s");
    throw InputError(
        fmt::format("{}: {}, and none states how long it took", name, steps),
        "lines need the trainer's own time, or a stamp with milliseconds; a rate of tokens counts with the job (--job)");
  }
  answer.run = *log.answer();
  answer.run_number = log.answer_number();
  return answer;
}

}  // namespace

void refuse_packed(std::string_view front, const std::string& name) {
  for (const Packing& packing : kPackings)
    if (front.starts_with(packing.front))
      throw InputError(fmt::format("{}: this is {}, and logs are read as plain text", name, packing.name),
                       fmt::format("{} {} > plain.log unpacks it", packing.unpack, name));
}

TrainingLog read_training_log(const LogLines::Source& source, const std::string& name, int run, const JobSize& known) {
  std::vector<TrainerReader> readers;
  for (const LogTrainer& trainer : log_trainers()) readers.push_back({&trainer, trainer.make(), RunLog(run, known)});
  bool begins = true;
  LogLines lines([&](char* buffer, std::size_t size) {
    const std::size_t got = source(buffer, size);
    if (std::exchange(begins, false)) refuse_packed({buffer, got}, name);
    return got;
  });
  for (LogLine line; lines.next(line);)
    for (TrainerReader& reader : readers) {
      const long long before = reader.log.steps();
      reader.format->read(line, reader.log);
      if (reader.log.steps() > before) reader.log.written(clock_of(line));
    }
  TrainerReader* first = nullptr;
  std::vector<std::string> others;
  for (TrainerReader& reader : readers) {
    reader.log.finish();
    if (reader.log.steps() == 0) continue;
    if (first == nullptr)
      first = &reader;
    else
      others.emplace_back(reader.trainer->name);
  }
  if (first == nullptr) refuse_log(name, lines.holds_text());
  TrainingLog answer = answer_of(name, *first, run);
  answer.run.left_out.cut_lines += lines.cut();
  answer.other_trainers = std::move(others);
  return answer;
}

TrainingLog read_training_log(const std::string& file, int run, const JobSize& known) {
  report_file_read(file);
  const OpenFile opened(file);
  return read_training_log([&](char* buffer, std::size_t size) { return opened.read(buffer, size, file); }, name_of_file(file),
                           run, known);
}

ImportedJob import_stated_job(const TrainingLog& log, const JobOptions& options) {
  const StatedJob& stated = log.run.job;
  if (stated.text.empty())
    throw option_fault("job", fmt::format("{}: the log does not state the job", log.file), "name a scenario of it",
                       code::kMissingKey);
  JobOptions known = options;
  // The others state them among their arguments.
  if (!known.gpus && stated.gpus > 0 && (stated.trainer == "deepspeed" || stated.trainer == "torchtitan"))
    known.gpus = stated.gpus, known.gpus_origin = "the log's ranks";
  const std::string place = fmt::format("{} (line {})", log.file, stated.line);
  const int line = static_cast<int>(stated.line);
  if (stated.trainer == "megatron-core") return import_printed_megatron(stated.text, log.file, line, known);
  if (stated.trainer == "gpt-neox") return import_printed_neox(stated.text, log.file, line, known);
  const std::string text = stated.trainer == "nanotron" ? json_of_python(stated.text, place) : stated.text;
  return importer_named(stated.trainer).read(text, place, known);
}

}  // namespace panpipe::jobs
