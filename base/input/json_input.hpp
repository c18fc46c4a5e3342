// Parses JSON text into nlohmann's document. All JSON from users is parsed here. Every fault is an InputError with its place.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace panpipe {

// The deepest nesting of brackets. Copying and printing a document recurse once per level; no document of ours has ten levels.
constexpr int kDeepestJson = 128;

// `name` identifies the text in messages: a path, or an archive and its entry. `keep` may drop parts or throw, like nlohmann's
// callback. Throws InputError for text that is not JSON, nesting deeper than kDeepestJson, a number beyond the range of a double,
// and bytes that are not text. Defined for nlohmann::json and nlohmann::ordered_json.
template <class Json>
Json parse_json(const std::string& text, const std::string& name, const typename Json::parser_callback_t& keep = nullptr);

extern template nlohmann::json parse_json(const std::string&, const std::string&, const nlohmann::json::parser_callback_t&);
extern template nlohmann::ordered_json parse_json(const std::string&, const std::string&,
                                                  const nlohmann::ordered_json::parser_callback_t&);

}  // namespace panpipe
