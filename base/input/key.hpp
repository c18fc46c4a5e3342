// The keys of a file, declared once: readers accept what is declared and nothing else, and `panpipe schema`, `panpipe check`, the
// reference of keys and the exporters take from the declaration what they need to know of a key.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

// The allowed sign of a number. Messages state it: "must be positive", "must not be negative", "must be at least 1".
enum class Sign { Any, NonNegative, Positive };

// File: a path. Shipped: a path, or the name of a shipped file.
enum class ValueForm { Text, Whole, Number, Truth, Time, Size, BytesPerSecond, FlopPerSecond, Share, File, Shipped };

struct Form {
  ValueForm kind = ValueForm::Text;
  Sign sign = Sign::Any;
  int at_least = 0;  // of whole numbers
};
namespace form {
constexpr Form text() { return {}; }
constexpr Form whole(int at_least) { return {ValueForm::Whole, Sign::Any, at_least}; }
constexpr Form number(Sign sign = Sign::Any) { return {ValueForm::Number, sign, 0}; }
constexpr Form truth() { return {ValueForm::Truth, Sign::Any, 0}; }
constexpr Form time(Sign sign = Sign::NonNegative) { return {ValueForm::Time, sign, 0}; }
constexpr Form size(Sign sign = Sign::NonNegative) { return {ValueForm::Size, sign, 0}; }
constexpr Form bandwidth() { return {ValueForm::BytesPerSecond, Sign::Positive, 0}; }
constexpr Form rate() { return {ValueForm::FlopPerSecond, Sign::Positive, 0}; }
constexpr Form share() { return {ValueForm::Share, Sign::NonNegative, 0}; }
constexpr Form file() { return {ValueForm::File, Sign::Any, 0}; }
constexpr Form shipped() { return {ValueForm::Shipped, Sign::Any, 0}; }
}  // namespace form

// Training: what a run computes; predictions ignore it. Nothing: words for people.
enum class ActsOn { Prediction, Training, Nothing };

// Stated: every exporter states it. Apart: it concerns the prediction, not the job. Reported: some exporters cannot express it;
// the export then reports it.
enum class InExports { Stated, Apart, Reported };

struct Key;

// A list of keys. Copies share it, so that tables are put together from parts without copying these.
class Keys {
 public:
  Keys() = default;
  Keys(std::initializer_list<Key> keys);
  Keys(std::vector<Key> keys);

  bool empty() const { return keys_ == nullptr; }
  const Key& front() const { return *begin(); }
  const Key* begin() const;
  const Key* end() const;

 private:
  std::shared_ptr<const std::vector<Key>> keys_;  // never empty
};

struct Key {
  std::string name = {};
  std::vector<Form> forms = {};         // of a single value; a key may have several
  std::vector<std::string> words = {};  // single values that are accepted, in addition to the forms
  Keys items = {};                      // one: the value may be a list of these
  Keys keys = {};                       // the value may be a map with these
  bool open = false;                    // a map whose keys its file chooses
  bool required = false;                // of the map that it stands in
  std::string fallback = {};            // the value when the key is absent
  std::string_view otherwise = {};      // what holds when the key is absent, if that is no one value: "the framework's"
  std::string_view meaning = {};        // a phrase or a sentence; Markdown's code marks only
  std::string_view page = {};           // under docs/, which explains more
  std::string example = {};             // a legal value, if nothing else shows one
  // Not stated: as the map that it stands in.
  std::optional<ActsOn> acts_on = {};
  std::optional<InExports> exports = {};

  bool is_file() const;
  // The key with this name in the map; nullptr if it is not declared.
  const Key* find(std::string_view key) const;
  // The key at a path such as "optimizer.groups[1].match"; "" is this one. nullptr if it is not declared.
  const Key* at(std::string_view path) const;
};

}  // namespace panpipe
