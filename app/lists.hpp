// The names that a scenario may use, for `panpipe list` and panpipe.list().
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace panpipe::app {

struct ListedItem {
  std::string name, line, source;
  nlohmann::ordered_json more = nlohmann::ordered_json::object();  // further keys of the document
};

struct ListKind {
  const char* name;
  const char* key;  // key under which a scenario names one
  std::vector<ListedItem> (*items)();
  std::string (*last_line)() = nullptr;  // a last line for a terminal
};

const std::vector<ListKind>& list_kinds();
std::vector<std::string> list_kind_names();
const ListKind& list_kind_named(const std::string& name);  // throws InputError for an unknown name

std::string to_json(const ListKind& kind);  // panpipe-list/1
std::string list_kinds_json();              // the kinds, with the number of items of each

}  // namespace panpipe::app
