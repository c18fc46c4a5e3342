#include "jobs/trainer_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe::jobs {

namespace {

std::vector<std::string> words_of(const std::string& trainer, const char* key) {
  const std::shared_ptr<const Node> file = trainer_file(trainer);
  const Node* list = file->find(key);
  if (list == nullptr) throw InputError(std::vector{diagnostic_at(*file, fmt::format("'{}' is missing", key))});
  std::vector<std::string> found;
  for (const NodePtr& item : list->items) found.push_back(item->text);
  return found;
}

}  // namespace

UnreadKeys unread_keys(const std::string& trainer) {
  return {words_of(trainer, "not_modelled"), words_of(trainer, "without_effect")};
}

ArgumentForms argument_forms(const std::string& trainer) {
  return {words_of(trainer, "flags"), words_of(trainer, "lists"), words_of(trainer, "without_effect")};
}

std::string flow_text(const Node& node) {
  if (node.kind == NodeKind::Null) return "null";
  if (node.kind == NodeKind::Scalar) return node.text;
  std::vector<std::string> parts;
  for (const NodePtr& item : node.items) parts.push_back(flow_text(*item));
  for (const Node::Entry& entry : node.entries) parts.push_back(entry.key + ": " + flow_text(*entry.value));
  const bool list = node.kind == NodeKind::Sequence;
  return fmt::format("{}{}{}", list ? "[" : "{", fmt::join(parts, ", "), list ? "]" : "}");
}

}  // namespace panpipe::jobs
