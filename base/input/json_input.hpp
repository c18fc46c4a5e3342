// JSON text -> nlohmann's document: the one place that parses JSON which a user gives. Every fault is an InputError with its
// place.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace panpipe {

// Brackets within brackets. Copies and prints of a document call themselves once a level; no document of ours has ten.
constexpr int kDeepestJson = 128;

// `name` is how messages call the text: a path, or an archive and its entry. `keep` may drop parts or throw, as nlohmann's
// callback. Throws InputError: not JSON, nested deeper than kDeepestJson, a number beyond the range of a double, bytes that are
// no text. For nlohmann::json and nlohmann::ordered_json.
template <class Json>
Json parse_json(const std::string& text, const std::string& name, const typename Json::parser_callback_t& keep = nullptr);

extern template nlohmann::json parse_json(const std::string&, const std::string&, const nlohmann::json::parser_callback_t&);
extern template nlohmann::ordered_json parse_json(const std::string&, const std::string&,
                                                  const nlohmann::ordered_json::parser_callback_t&);

}  // namespace panpipe
