#include "base/input/key.hpp"

#include <algorithm>
#include <utility>

namespace panpipe {

Keys::Keys(std::initializer_list<Key> keys) : Keys(std::vector<Key>(keys)) {}
Keys::Keys(std::vector<Key> keys) {
  if (!keys.empty()) keys_ = std::make_shared<const std::vector<Key>>(std::move(keys));
}
const Key* Keys::begin() const { return keys_ != nullptr ? keys_->data() : nullptr; }
const Key* Keys::end() const { return keys_ != nullptr ? keys_->data() + keys_->size() : nullptr; }

bool Key::is_file() const {
  return std::any_of(forms.begin(), forms.end(),
                     [](const Form& form) { return form.kind == ValueForm::File || form.kind == ValueForm::Shipped; });
}

const Key* Key::find(std::string_view key) const {
  for (const Key& known : keys)
    if (known.name == key) return &known;
  return nullptr;
}

const Key* Key::at(std::string_view path) const {
  const Key* key = this;
  while (!path.empty() && key != nullptr) {
    if (path.front() == '[') {
      key = key->items.empty() ? nullptr : &key->items.front();
      path.remove_prefix(std::min(path.find(']'), path.size() - 1) + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      key = key->find(path.substr(0, end));
      path.remove_prefix(end);
    }
  }
  return key;
}

}  // namespace panpipe
