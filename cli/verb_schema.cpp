// panpipe schema: what a scenario may hold, or what a verb's document holds, as a JSON Schema (draft 2020-12).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/version.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/scenario/scenario_keys.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

// A quantity with a unit; 0 needs none.
ordered_json quantity(const char* example) {
  return {{"anyOf", {{{"type", "string"}}, {{"const", 0}}}}, {"examples", {example}}};
}

ordered_json schema_of_number(const Form& form) {
  ordered_json number = {{"type", "number"}};
  if (form.sign == Sign::NonNegative) number["minimum"] = 0;
  if (form.sign == Sign::Positive) number["exclusiveMinimum"] = 0;
  return number;
}

ordered_json schema_of_form(const Form& form) {
  switch (form.kind) {
    case ValueForm::Whole:
      return {{"type", "integer"}, {"minimum", form.at_least}};
    case ValueForm::Number:
      return schema_of_number(form);
    case ValueForm::Truth:
      return {{"type", "boolean"}};
    case ValueForm::Time:
      return quantity("5 us");
    case ValueForm::Size:
      return quantity("24 GiB");
    case ValueForm::BytesPerSecond:
      return quantity("25 GB/s");
    case ValueForm::FlopPerSecond:
      return quantity("71 TFLOP/s");
    case ValueForm::Share:
      return quantity("85 %");
    case ValueForm::Text:
    case ValueForm::File:
    case ValueForm::Shipped:
      return {{"type", {"string", "number", "boolean"}}};  // a text that YAML may read as a number or as yes or no
  }
  return ordered_json::object();
}

ordered_json schema_of(const Key& key);

ordered_json schema_of_map(const Key& key) {
  ordered_json properties = ordered_json::object(), required = ordered_json::array();
  for (const Key& inner : key.keys) {
    properties[inner.name] = schema_of(inner);
    if (inner.required) required.push_back(inner.name);
  }
  ordered_json map = {{"type", "object"}};
  if (!properties.empty()) map["properties"] = properties;
  if (!required.empty()) map["required"] = required;
  if (!key.open) map["additionalProperties"] = false;
  return map;
}

const char* word_of(ActsOn acts_on) {
  return acts_on == ActsOn::Prediction ? "predictions" : acts_on == ActsOn::Training ? "training" : "nothing";
}

ordered_json schema_of(const Key& key) {
  ordered_json forms = ordered_json::array();
  if (!key.words.empty()) forms.push_back({{"enum", key.words}});
  for (const Form& form : key.forms) forms.push_back(schema_of_form(form));
  for (const Key& item : key.items) forms.push_back({{"type", "array"}, {"items", schema_of(item)}});
  if (key.open || !key.keys.empty()) forms.push_back(schema_of_map(key));
  ordered_json schema = forms.size() == 1 ? forms.front() : ordered_json{{"anyOf", forms}};
  if (!key.otherwise.empty())
    schema["x-otherwise"] = std::string(key.otherwise);
  else if (!key.fallback.empty())
    schema["default"] = key.fallback;
  if (!key.example.empty()) schema["examples"] = {key.example};
  if (!key.meaning.empty()) schema["description"] = std::string(key.meaning);
  if (!key.page.empty()) schema["x-page"] = std::string(key.page);
  if (key.acts_on) schema["x-acts-on"] = word_of(*key.acts_on);
  return schema;
}

constexpr std::string_view kSuffix = ".json";

// The documents that the verbs print: their schemas are shipped, one file each.
std::vector<std::string> documents() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(data_directory() + "/schemas", none))
    if (file.path().extension() == kSuffix) names.push_back(file.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::string schema_of_document(const std::string& name) {
  const std::vector<std::string> names = documents();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw InputError(fmt::format("there is no document '{}'{}", name, suggestion_or_list(name, names)), "", code::kUnknownName);
  return read_text_file(fmt::format("{}/schemas/{}{}", data_directory(), name, kSuffix));
}

}  // namespace

void add_schema_verb(CLI::App& sub, std::function<int()>& run) {
  auto document = std::make_shared<std::string>();
  sub.add_option("DOCUMENT", *document,
                 fmt::format("what --json prints ({}); without it, the scenario", fmt::join(documents(), ", ")));
  run = [document] {
    if (!document->empty() && *document != "scenario") {
      print(schema_of_document(*document));
      return 0;
    }
    ordered_json schema = {
        {"$schema", "https://json-schema.org/draft/2020-12/schema"},
        {"title", std::string("scenario of panpipe ") + kVersion},
        {"$comment",
         "x-otherwise: what holds without the key; x-page: the page of the documents with more; x-acts-on: "
         "predictions, training or nothing, as the map around it if absent. What several keys must be together, "
         "the reader alone knows."}};
    schema.update(schema_of(scenario_keys()));
    print(schema.dump(2) + "\n");
    return 0;
  };
}

}  // namespace panpipe::cli
