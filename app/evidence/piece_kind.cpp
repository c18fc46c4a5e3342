#include "app/evidence/piece_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/index.hpp"
#include "base/text/characters.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/kineto/kineto_trace.hpp"
#include "jobs/log/read_log.hpp"

namespace panpipe::app {
namespace {

constexpr std::size_t kFront = 1 << 16;  // bytes that a kind is recognised by

// Indexed by PieceKind.
constexpr std::string_view kWords[] = {
    "a training log", "a table of runs",           "a trace", "an output of nccl-tests", "a table of measured collectives",
    "a profile",      "a device or a calibration", "a result"};

constexpr std::string_view kNames[] = {"log", "runs", "trace", "collectives", "collectives", "profile", "device", "result"};

bool holds(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

std::string_view line_at_front(std::string_view text) { return text.substr(0, text.find_first_of("\r\n")); }

// The first line with anything but a comment on it.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && !line.starts_with('#')) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// The value of a key at the left edge; nullopt: no line begins with it.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  if (!text.starts_with(key)) {
    at = text.find("\n" + std::string(key));
    if (at++ == std::string_view::npos) return std::nullopt;
  }
  std::string_view value = line_at_front(text.substr(at + key.size()));
  value = value.substr(0, value.find('#'));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value.substr(0, value.find(' '));
}

// Whether the text is YAML of ours: notes of ours in a log begin alike, with words behind.
bool is_ours(std::string_view text) {
  const auto version = value_of(text, "panpipe:");
  return version && !version->empty() && std::isdigit(static_cast<unsigned char>(version->front())) != 0;
}

PieceKind kind_of_ours(const std::string& file, std::string_view text) {
  const std::optional<std::string_view> kind = value_of(text, "kind:");
  if (!kind)
    throw InputError(file + ": this is a scenario, and evidence was measured",
                     fmt::format("{{log: FILE, job: {}}} names it as the job of a log", file));
  if (*kind == "profile") return PieceKind::Profile;
  if (*kind == "device" || *kind == "calibration") return PieceKind::Device;
  if (*kind == "collectives") return PieceKind::Collectives;
  throw InputError(fmt::format("{}: this is a file of the kind '{}', which holds no measurements", file, *kind),
                   "evidence is a log, a table of runs, an output of nccl-tests, a trace, a profile, or a measured device");
}

bool has_column(std::string_view heading, std::string_view column) {
  const std::vector<std::string> fields = split_text(heading, ',');
  return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) { return trimmed(field, " \r\"") == column; });
}

bool is_table(const std::string& file, std::string_view heading) {
  const bool id = has_column(heading, "id"), step = has_column(heading, "step_s");
  if (!holds(heading, ",") || (!id && !step && !file.ends_with(".csv"))) return false;
  if (!id || !step)
    throw InputError(fmt::format("{}: this is a table without the column '{}'", file, id ? "step_s" : "id"),
                     "a table of runs has a row for each, with its job and 'step_s', the measured seconds of a step");
  return true;
}

void check_file(const std::string& file) {
  std::error_code unknown;
  const auto status = std::filesystem::status(file, unknown);
  if (std::filesystem::is_directory(status))
    throw InputError(file + ": this is a folder, and a piece of evidence is one file",
                     "name its files, each as a piece of its own", code::kNoFile);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw InputError(file + ": this is a device or a pipe, and evidence is read more than once",
                     "write what it holds into a file, and name that", code::kNoFile);
}

}  // namespace

std::string_view words_of(PieceKind kind) { return kWords[at(kind)]; }
std::string_view name_of(PieceKind kind) { return kNames[at(kind)]; }

PieceKind kind_of_piece(const std::string& file) {
  check_file(file);
  const std::optional<std::string> read = input_bytes(file, kFront);
  if (!read) throw InputError(fmt::format("{}: cannot be read", file), "", code::kNoFile);
  if (read->empty()) throw InputError(file + ": the file is empty", "", code::kEmpty);
  const std::string front = jobs::unpacked_front(file, kFront).value_or(*read);
  const std::string_view heading = first_line(front);
  const bool braced = heading.starts_with('{');
  if (braced && (holds(front, "\"traceEvents\"") || holds(front, "\"schemaVersion\""))) return PieceKind::Trace;
  jobs::refuse_packed(*read, file);
  if (is_ours(front)) return kind_of_ours(file, front);
  if (braced && holds(front, "\"panpipe-result/1\"")) return PieceKind::Result;
  if (braced && holds(front, "\"schema\": \"panpipe-"))
    throw InputError(file + ": this is a document of Panpipe, and no measured result",
                     "'panpipe run SCENARIO -o DIR' writes a measured result");
  if (holds(front, "nThread") || holds(front, "# nccl-tests version") || (holds(front, "algbw") && holds(front, "busbw")))
    return PieceKind::Nccl;
  return is_table(file, heading) ? PieceKind::Runs : PieceKind::Log;
}

}  // namespace panpipe::app
