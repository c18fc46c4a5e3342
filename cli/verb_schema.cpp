// panpipe schema: what a scenario may hold, as a JSON Schema (draft 2020-12), for editors and for documents.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/input/key_record.hpp"
#include "base/version.hpp"
#include "cli/key_meanings.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/scenario/scenario_keys.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;
using Facts = std::map<std::string, KeyFact>;

// A text that YAML may read as a number or as yes or no.
ordered_json scalar() { return {{"type", {"string", "number", "boolean"}}}; }

// A quantity with a unit; 0 needs none.
ordered_json quantity(const char* example) {
  return {{"anyOf", {{{"type", "string"}}, {{"const", 0}}}}, {"examples", {example}}};
}

ordered_json of_form(ValueForm form, const KeyFact& fact) {
  switch (form) {
    case ValueForm::Whole: {
      ordered_json whole = {{"type", "integer"}};
      if (fact.at_least) whole["minimum"] = *fact.at_least;
      return whole;
    }
    case ValueForm::Number:
      return {{"type", "number"}};
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
      return scalar();
  }
  return ordered_json::object();
}

// The keys right under a path; "[]" is the items of a list.
std::vector<std::string> below(const Facts& facts, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [key, fact] : facts) {
    if (key.size() <= path.size() || !key.starts_with(path)) continue;
    std::string_view rest = std::string_view(key).substr(path.size());
    if (rest.starts_with("[]"))
      rest = "[]";
    else if (path.empty())
      rest = rest.substr(0, rest.find_first_of(".["));
    else if (rest.front() == '.')
      rest = rest.substr(0, rest.find_first_of(".[", 1)).substr(1);
    else
      continue;
    if (std::find(names.begin(), names.end(), rest) == names.end()) names.emplace_back(rest);
  }
  return names;
}

ordered_json schema_of(const Facts& facts, const std::string& path);

ordered_json map_of(const Facts& facts, const std::string& path, const KeyFact& fact) {
  ordered_json properties = ordered_json::object(), required = ordered_json::array();
  for (const std::string& name : below(facts, path)) {
    if (name == "[]") continue;
    const std::string key = path.empty() ? name : path + "." + name;
    const ordered_json value = schema_of(facts, key);
    // A key that no reader took in any form is one that it knows only to refuse it with a better reason.
    if (value.empty()) continue;
    properties[name] = value;
    const auto fact_below = facts.find(key);
    const KeyFact known = fact_below != facts.end() ? fact_below->second : KeyFact{};
    // A file may bring what the cluster's own keys leave out.
    const bool from_file = path == "cluster" || path.starts_with("cluster.");
    if (!from_file && !known.may_be_absent && known.required >= fact.maps && known.required > 0) required.push_back(name);
  }
  ordered_json map = {{"type", "object"}, {"properties", properties}};
  if (!required.empty()) map["required"] = required;
  if (fact.maps > 0) map["additionalProperties"] = false;
  return map;
}

ordered_json schema_of(const Facts& facts, const std::string& path) {
  const auto known = facts.find(path);
  const KeyFact fact = known != facts.end() ? known->second : KeyFact{};
  const std::vector<std::string> names = below(facts, path);
  ordered_json forms = ordered_json::array();
  if (!fact.words.empty()) forms.push_back({{"enum", fact.words}});
  for (const ValueForm form : fact.forms) forms.push_back(of_form(form, fact));
  const bool list = std::find(names.begin(), names.end(), "[]") != names.end();
  if (list) forms.push_back({{"type", "array"}, {"items", schema_of(facts, path + "[]")}});
  if (fact.maps > 0 || names.size() > (list ? 1U : 0U)) forms.push_back(map_of(facts, path, fact));
  ordered_json schema = forms.empty()       ? ordered_json::object()
                        : forms.size() == 1 ? forms.front()
                                            : ordered_json{{"anyOf", forms}};
  if (fact.fallbacks.size() == 1) schema["default"] = *fact.fallbacks.begin();
  if (const std::string meaning = meaning_of(path); !meaning.empty()) schema["description"] = meaning;
  return schema;
}

}  // namespace

void add_schema_verb(CLI::App&, std::function<int()>& run) {
  run = [] {
    const Facts facts = scenario_keys();
    ordered_json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                           {"title", std::string("scenario of panpipe ") + kVersion},
                           {"$comment",
                            "Keys, forms, words and defaults are what the reader asks for; descriptions are those of "
                            "docs/file-formats.md. What several keys must be together, the reader alone knows."}};
    schema.update(schema_of(facts, ""));
    print(schema.dump(2) + "\n");
    return 0;
  };
}

}  // namespace panpipe::cli
