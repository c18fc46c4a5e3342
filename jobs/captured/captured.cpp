#include "jobs/captured/captured.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/input/null_value.hpp"
#include "base/input/scalar_text.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/bounds.hpp"
#include "jobs/megatron/export.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::string_view kSchema = "panpipe-capture/";
constexpr std::string_view kRelease = "1";  // of the schema
constexpr std::size_t kMostText = std::size_t{4} << 20;

[[noreturn]] void refuse(const Node& at, const std::string& message, const std::string& help = "") {
  throw InputError(std::vector{diagnostic_at(at, message, help)});
}

const Node& member(const Node& map, const char* key, NodeKind kind) {
  const Node* found = map.find(key);
  if (found == nullptr || found->kind != kind) refuse(map, fmt::format("a captured job without a '{}' is damaged", key));
  return *found;
}

// As YAML flow text that reads back as the same, whatever the words are.
std::string safe_flow_text(const Node& node) {
  if (is_null(node)) return "null";
  if (node.kind == NodeKind::Scalar) return scalar_text(node.text);
  std::vector<std::string> parts;
  for (const NodePtr& item : node.items) parts.push_back(safe_flow_text(*item));
  for (const Node::Entry& entry : node.entries)
    parts.push_back(fmt::format("{}: {}", scalar_text(entry.key), safe_flow_text(*entry.value)));
  const bool list = node.kind == NodeKind::Sequence;
  return fmt::format("{}{}{}", list ? "[" : "{", fmt::join(parts, ", "), list ? "]" : "}");
}

int whole(const Node& node, int most) {
  const Parsed<double> value = parse_number(node.text);
  if (!value.value || *value.value < 1 || *value.value > most || *value.value != static_cast<int>(*value.value))
    refuse(node, fmt::format("'{}' is no whole number from 1 to {}", one_line(node.text), most));
  return static_cast<int>(*value.value);
}

std::vector<std::string> texts(const Node& root, const char* key) {
  std::vector<std::string> found;
  if (const Node* list = root.find(key); list != nullptr && list->kind == NodeKind::Sequence)
    for (const NodePtr& item : list->items) found.push_back(item->text);
  return found;
}

NodePtr document_of(const std::string& text, const std::string& name) {
  if (!is_captured(text)) return nullptr;
  if (text.size() > kMostText) throw InputError(fmt::format("{}: a captured job of more than 4 MiB is none", name));
  NodePtr root = parse_document(text, name, ".");
  const Node* schema = root->kind == NodeKind::Map ? root->find("schema") : nullptr;
  if (schema == nullptr || !schema->text.starts_with(kSchema)) return nullptr;
  if (schema->text.substr(kSchema.size()) != kRelease)
    refuse(*schema, fmt::format("'{}' is another form of captured jobs than {}{}", one_line(schema->text), kSchema, kRelease),
           "capture the job with the panpipe.capture of this release");
  return root;
}

NodePtr shared(const Node& map, const char* key) {
  for (const Node::Entry& entry : map.entries)
    if (entry.key == key) return entry.value;
  return nullptr;
}

}  // namespace

bool is_captured(const std::string& text) { return trimmed(text).starts_with('{') && text.find(kSchema) != std::string::npos; }

std::optional<CapturedJob> captured_job(const std::string& text, const std::string& name) {
  const NodePtr root = document_of(text, name);
  if (root == nullptr) return std::nullopt;
  CapturedJob job;
  const Node& trainer = member(*root, "trainer", NodeKind::Map);
  job.trainer = member(trainer, "name", NodeKind::Scalar).text;
  job.release = member(trainer, "release", NodeKind::Scalar).text;
  member(*root, "configuration", NodeKind::Map);
  job.configuration = shared(*root, "configuration");
  if (const Node* model = root->find("model"); model != nullptr && !is_null(*model)) {
    member(*root, "model", NodeKind::Map);
    const Node* layers = model->find("num_hidden_layers");
    job.model = CapturedModel{safe_flow_text(*model), layers == nullptr ? 0 : whole(*layers, kMostLayers)};
  }
  if (const Node* world = root->find("world"); world != nullptr && !is_null(*world)) job.world = whole(*world, kMostRanks);
  if (root->find("stated") != nullptr) {
    const std::vector<std::string> stated = texts(*root, "stated");
    job.stated = std::set<std::string>(stated.begin(), stated.end());
  }
  if (root->find("words") != nullptr) {
    job.words = "";
    for (const std::string& word : texts(*root, "words")) *job.words += shell_word(word) + " ";
  }
  job.remarks = texts(*root, "remarks");
  return job;
}

void apply_captured(const CapturedJob& captured, const std::string& trainer, const std::string& name, JobOptions& options) {
  if (captured.trainer != trainer)
    throw InputError(fmt::format("{}: this is a captured job of '{}', not of {}", name, one_line(captured.trainer), trainer),
                     fmt::format("panpipe import {} reads it", one_line(captured.trainer)));
  options.captured_trainer = captured.trainer;
  options.captured_model = captured.model;
  options.captured_release = captured.release;
  options.captured_remarks = captured.remarks;
  if (options.gpus || !captured.world) return;
  options.gpus = captured.world;
  options.gpus_origin = "the captured number of ranks";
}

std::string release_number(const std::string& release) {
  std::string number = release.substr(0, release.find_first_not_of("0123456789."));
  while (!number.empty() && number.back() == '.') number.pop_back();
  return number;
}

JobKeys keys_of(const CapturedJob& captured) {
  JobKeys keys(captured.configuration);
  if (captured.stated) keys.report_only(*captured.stated);
  return keys;
}

JobKeys captured_keys_or(const std::string& text, const std::string& name, const std::string& trainer, JobOptions& options,
                         const std::function<JobKeys()>& read) {
  const std::optional<CapturedJob> captured = captured_job(text, name);
  if (!captured) return read();
  apply_captured(*captured, trainer, name, options);
  return keys_of(*captured);
}

}  // namespace panpipe::jobs
