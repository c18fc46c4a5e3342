#include "base/input/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/input/read_scalar.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"

namespace panpipe {

namespace {

std::string last_key(const Node& node) {
  const std::size_t dot = node.path.rfind('.');
  return dot == std::string::npos ? node.path : node.path.substr(dot + 1);
}

template <class T>
std::optional<std::string> text_of(const std::optional<T>& fallback) {
  if (!fallback) return std::nullopt;
  return exact_text(*fallback);
}

template <class T, class Read>
T read_or(const Node* value, const std::optional<T>& fallback, Read read) {
  return (value != nullptr ? read(*value) : std::nullopt).value_or(fallback.value_or(T{}));
}

}  // namespace

std::string words_for(const Node& node) {
  switch (node.kind) {
    case NodeKind::Null:
      return "nothing";
    case NodeKind::Scalar:
      return fmt::format("'{}'", node.text);
    case NodeKind::Sequence:
      return "a list";
    case NodeKind::Map:
      return "a map";
  }
  return "";
}

bool is_scalar(const Node& node, ReadLog& log, const char* expected) {
  if (node.kind == NodeKind::Scalar) return true;
  if (node.kind == NodeKind::Null)
    log.error(node,
              node.path.empty() ? fmt::format("expected {}, found nothing", expected)
                                : fmt::format("'{}' has no value; expected {}", last_key(node), expected),
              "", code::kEmpty);
  else
    log.error(node, fmt::format("expected {}, found {}", expected, words_for(node)), "", code::kWrongType);
  return false;
}

std::string sign_problem(double value, Sign sign, const std::string& text) {
  if (sign == Sign::Positive && !(value > 0)) return fmt::format("'{}' must be positive", text);
  if (sign == Sign::NonNegative && value < 0) return fmt::format("'{}' must not be negative", text);
  return "";
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string origin_of(const Node& node) {
  if (node.overridden) return "--set";
  if (node.line <= 0) return node.source->name;  // of a program's own data: it has no lines
  return fmt::format("{}:{}", node.source->name, node.line);
}

// --- ReadLog ---

void ReadLog::error(const Node& at, const std::string& message, const std::string& help, std::string_view code) {
  add(diagnostic_at(at, message, help, code));
}

void ReadLog::error_at_key(const Node& map, const std::string& key, const std::string& message, const std::string& help,
                           std::string_view code) {
  if (diagnostics_.size() >= kMostDiagnostics) return;  // finding the key and drawing its line take time
  add(diagnostic_at_key(map, key, message, help, code));
}

void ReadLog::add(Diagnostic diagnostic) {
  if (diagnostics_.size() >= kMostDiagnostics) return;
  if (std::find(diagnostics_.begin(), diagnostics_.end(), diagnostic) != diagnostics_.end()) return;
  if (std::find(files_.begin(), files_.end(), diagnostic.file) == files_.end()) files_.push_back(diagnostic.file);
  diagnostics_.push_back(std::move(diagnostic));
}

void ReadLog::add(const InputError& error) {
  for (const Diagnostic& diagnostic : error.diagnostics()) add(diagnostic);
}

void ReadLog::add_at(const Node& at, const InputError& error) {
  for (const Diagnostic& fault : error.diagnostics())
    add(fault.place.empty() ? diagnostic_at(at, fault.message, fault.help, fault.code) : fault);
}

void ReadLog::throw_if_errors() const {
  if (diagnostics_.empty()) return;
  // Sorted by file, and within a file from top to bottom, as a compiler reports faults.
  std::vector<Diagnostic> sorted = diagnostics_;
  const auto file_index = [&](const Diagnostic& d) { return std::find(files_.begin(), files_.end(), d.file) - files_.begin(); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(file_index(a), a.line, a.column) < std::tuple(file_index(b), b.line, b.column);
  });
  throw InputError(std::move(sorted));
}

void ReadLog::resolved(std::string path, std::string value, std::string origin) {
  resolved_.push_back({std::move(path), std::move(value), std::move(origin)});
}

// --- scalars ---

std::optional<Duration> read_duration(const Node& node, ReadLog& log, Sign sign) {
  return read_scalar<Duration>(node, log, sign, parse_duration, "a time, as in '5 us'");
}
std::optional<Bytes> read_bytes(const Node& node, ReadLog& log, Sign sign) {
  return read_scalar<Bytes>(node, log, sign, parse_bytes, "a size, as in '24 GiB'");
}
std::optional<Bandwidth> read_bandwidth(const Node& node, ReadLog& log, Sign sign) {
  return read_scalar<Bandwidth>(node, log, sign, parse_bandwidth, "a bandwidth, as in '25 GB/s'");
}
std::optional<ComputeRate> read_compute_rate(const Node& node, ReadLog& log, Sign sign) {
  return read_scalar<ComputeRate>(node, log, sign, parse_compute_rate, "a compute rate, as in '71 TFLOP/s'");
}
std::optional<double> read_number(const Node& node, ReadLog& log, Sign sign) {
  return read_scalar<double>(node, log, sign, parse_number, "a number");
}

std::optional<double> read_fraction(const Node& node, ReadLog& log) {
  if (!is_scalar(node, log, "a share, as in '85 %'")) return std::nullopt;
  const Parsed<double> parsed = parse_fraction(node.text);
  const bool outside = parsed.value && (*parsed.value < 0 || *parsed.value > 1);
  return accepted(node, log, parsed, outside ? fmt::format("'{}' must be between 0 % and 100 %", node.text) : "");
}

std::optional<int> read_integer(const Node& node, ReadLog& log, int at_least) {
  if (!is_scalar(node, log, "a whole number")) return std::nullopt;
  const Parsed<long long> parsed = parse_integer(node.text);
  std::string problem;
  if (parsed.value && *parsed.value < at_least)
    problem = at_least == 0 ? fmt::format("'{}' must not be negative", node.text)
                            : fmt::format("'{}' must be at least {}", node.text, at_least);
  if (parsed.value && *parsed.value > std::numeric_limits<int>::max()) problem = fmt::format("'{}' is too large", node.text);
  return accepted(node, log, parsed, problem);
}

std::optional<bool> read_boolean(const Node& node, ReadLog& log) {
  if (!is_scalar(node, log, "true or false")) return std::nullopt;
  if (node.text != "true" && node.text != "false") {
    const std::string small = lower_case(node.text);
    std::string meant;
    for (const auto& [yes, no] : {std::pair("yes", "no"), {"on", "off"}, {"y", "n"}, {"1", "0"}, {"true", "false"}})
      if (small == yes || small == no) meant = small == yes ? "; write 'true'" : "; write 'false'";
    log.error(node, fmt::format("'{}' is not true or false{}", node.text, meant), "", code::kWrongType);
    return std::nullopt;
  }
  log.resolved(node.path, node.text, origin_of(node));
  return node.text == "true";
}

std::optional<std::string> read_string(const Node& node, ReadLog& log) {
  if (!is_scalar(node, log, "a text")) return std::nullopt;
  if (node.text.empty()) {
    log.error(node, "the text is empty", "", code::kEmpty);
    return std::nullopt;
  }
  log.resolved(node.path, node.text, origin_of(node));
  return node.text;
}

// --- MapReader ---

MapReader::MapReader(const Node& node, ReadLog& log)
    : node_(&node),
      log_(&log),
      declared_(log.declared() != nullptr ? log.declared()->at(node.path) : nullptr),
      is_map_(node.kind == NodeKind::Map) {
  PANPIPE_CHECK(log.declared() == nullptr || declared_ != nullptr, fmt::format("'{}' is read, but not declared", node.path));
  if (is_map_) return;
  const bool open = node.kind == NodeKind::Scalar && node.text == "auto";
  log.error(node, fmt::format("expected a map ('key: value'), found {}", words_for(node)),
            open ? "'auto' stands for single values: leave this key out, or write auto for keys inside it" : "",
            code::kWrongType);
}

bool MapReader::has(const std::string& key) const { return is_map_ && node_->find(key) != nullptr; }

void MapReader::mark(const std::string& key) {
  if (std::find(read_.begin(), read_.end(), key) == read_.end()) read_.push_back(key);
}

const Node* MapReader::find(const std::string& key) {
  PANPIPE_CHECK(declared_ == nullptr || declared_->open || declared_->find(key) != nullptr,
                fmt::format("'{}' is read, but not declared", path_of(key)));
  mark(key);
  return is_map_ ? node_->find(key) : nullptr;
}

const Node* MapReader::require(const std::string& key) {
  const Node* value = find(key);
  if (value != nullptr || !is_map_) return value;
  missing_.push_back(key);
  return nullptr;
}

void MapReader::refuse(const std::string& key, const std::string& message, const std::string& help, std::string_view code) {
  if (!has(key)) return;
  mark(key);
  log_->error_at_key(*node_, key, message, help, code);
}

void MapReader::mark_declared() {
  if (declared_ == nullptr) return;
  for (const Key& key : declared_->keys) mark(key.name);
}

// One fault for all missing keys, which lists the existing ones. A misspelt key is reported only as a misspelling.
void MapReader::complain_missing(const std::vector<std::string>& unread) {
  constexpr std::size_t kMostListed = 12;
  std::vector<std::string> absent, present;
  for (const std::string& key : missing_)
    if (!nearest_name(key, unread)) absent.push_back(fmt::format("'{}'", key));
  if (absent.empty()) return;
  for (const Node::Entry& entry : node_->entries) present.push_back(fmt::format("'{}'", entry.key));
  std::string help = "the map is empty";
  if (present.size() == 1) help = "the only key here is " + present.front();
  if (present.size() > 1) help = "the keys here are " + list_of(present);
  if (present.size() > kMostListed) help.clear();
  log_->error(*node_, fmt::format("missing key{} {}", absent.size() == 1 ? "" : "s", list_of(absent)), help, code::kMissingKey);
}

std::string MapReader::path_of(const std::string& key) const { return node_->path.empty() ? key : node_->path + "." + key; }

const Node* MapReader::value_of(const std::string& key, const std::optional<std::string>& fallback) {
  if (!fallback) return require(key);
  const Node* value = find(key);
  if (value == nullptr && is_map_) log_->resolved(path_of(key), *fallback, "default");
  return value;
}

Duration MapReader::duration(const std::string& key, Sign sign, std::optional<Duration> fallback) {
  return read_or(value_of(key, text_of(fallback)), fallback, [&](const Node& node) { return read_duration(node, *log_, sign); });
}
Bytes MapReader::bytes(const std::string& key, Sign sign, std::optional<Bytes> fallback) {
  return read_or(value_of(key, text_of(fallback)), fallback, [&](const Node& node) { return read_bytes(node, *log_, sign); });
}
Bandwidth MapReader::bandwidth(const std::string& key, Sign sign, std::optional<Bandwidth> fallback) {
  return read_or(value_of(key, text_of(fallback)), fallback, [&](const Node& node) { return read_bandwidth(node, *log_, sign); });
}
ComputeRate MapReader::compute_rate(const std::string& key, Sign sign, std::optional<ComputeRate> fallback) {
  const Node* value = value_of(key, text_of(fallback));
  return read_or(value, fallback, [&](const Node& node) { return read_compute_rate(node, *log_, sign); });
}
double MapReader::fraction(const std::string& key, std::optional<double> fallback) {
  const Node* value = value_of(key, fallback ? std::optional(exact_fraction_text(*fallback)) : std::nullopt);
  return read_or(value, fallback, [&](const Node& node) { return read_fraction(node, *log_); });
}
double MapReader::number(const std::string& key, Sign sign, std::optional<double> fallback) {
  const Node* value = value_of(key, fallback ? std::optional(fmt::format("{}", *fallback)) : std::nullopt);
  return read_or(value, fallback, [&](const Node& node) { return read_number(node, *log_, sign); });
}
int MapReader::integer(const std::string& key, int at_least, std::optional<int> fallback) {
  const Node* value = value_of(key, fallback ? std::optional(std::to_string(*fallback)) : std::nullopt);
  return read_or(value, std::optional(fallback.value_or(at_least)),
                 [&](const Node& n) { return read_integer(n, *log_, at_least); });
}
bool MapReader::boolean(const std::string& key, std::optional<bool> fallback) {
  const Node* value = value_of(key, fallback ? std::optional<std::string>(*fallback ? "true" : "false") : std::nullopt);
  return read_or(value, fallback, [&](const Node& node) { return read_boolean(node, *log_); });
}
std::string MapReader::string(const std::string& key, std::optional<std::string> fallback) {
  return read_or(value_of(key, fallback), fallback, [&](const Node& node) { return read_string(node, *log_); });
}

std::string MapReader::choice_name(const std::string& key, const std::vector<std::string>& names,
                                   const std::optional<std::string>& fallback) {
  const Node* value = value_of(key, fallback);
  const std::string otherwise = fallback.value_or(names.empty() ? "" : names.front());
  if (value == nullptr || !is_scalar(*value, *log_, fmt::format("one of {}", list_of(names)).c_str())) return otherwise;
  if (std::find(names.begin(), names.end(), value->text) == names.end()) {
    log_->error(*value, fmt::format("unknown {} '{}'{}", key, value->text, suggestion(value->text, names)),
                fmt::format("{} is one of {}", key, list_of(names)), code::kUnknownName);
    return otherwise;
  }
  log_->resolved(value->path, value->text, origin_of(*value));
  return value->text;
}

void MapReader::finish() {
  if (!is_map_) return;
  std::vector<std::string> unread;
  for (const Node::Entry& entry : node_->entries)
    if (std::find(read_.begin(), read_.end(), entry.key) == read_.end()) unread.push_back(entry.key);
  complain_missing(unread);
  if (unread.empty()) return;
  if (declared_ != nullptr) {  // messages list keys in the order of their declaration
    const auto position = [&](const std::string& name) {
      const Key* key = declared_->find(name);
      return key != nullptr ? key - declared_->keys.begin() : declared_->keys.end() - declared_->keys.begin();
    };
    std::stable_sort(read_.begin(), read_.end(), [&](const auto& a, const auto& b) { return position(a) < position(b); });
  }
  std::vector<std::string> absent;
  for (const std::string& key : read_)
    if (node_->find(key) == nullptr) absent.push_back(key);
  bool known_were_listed = false;
  if (unread.size() > kMostDiagnostics) unread.resize(kMostDiagnostics);  // more are not kept
  for (const std::string& key : unread) {
    auto nearest = nearest_name(key, absent);
    if (!nearest) nearest = nearest_name(key, read_);
    if (nearest) {
      log_->error_at_key(*node_, key, fmt::format("unknown key '{}', {}", key, did_you_mean(*nearest)), "", code::kUnknownKey);
      continue;
    }
    std::string help = read_.empty() ? "no key is known here" : fmt::format("known here: {}", list_of(read_));
    if (known_were_listed) help.clear();
    known_were_listed = true;
    log_->error_at_key(*node_, key, fmt::format("unknown key '{}'", key), help, code::kUnknownKey);
  }
}

void read_heading(MapReader& reader, const std::string& kind, Heading heading) {
  const auto find = [&](const char* key) { return heading == Heading::Required ? reader.require(key) : reader.find(key); };
  if (const Node* version = find("panpipe"))
    if (const auto number = read_integer(*version, reader.log(), 1); number && *number != 1)
      reader.log().error(*version, fmt::format("this version of panpipe reads format 1, not {}", *number));
  if (const Node* stated = find("kind"); stated != nullptr && stated->text != kind)
    reader.log().error(*stated, fmt::format("this is a file of kind '{}', not '{}'", stated->text, kind));
  for (const char* for_people : {"description", "source"}) reader.find(for_people);
}

}  // namespace panpipe
