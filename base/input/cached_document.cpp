#include "base/input/cached_document.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/input/source_text.hpp"

namespace panpipe {

std::shared_ptr<const Node> cached_document(const std::string& path) {
  struct Cached {
    std::string text;
    std::shared_ptr<const Node> root;
  };
  static std::mutex mutex;
  static std::map<std::string, Cached> cache;  // by path, which messages name

  std::string text = read_text_file(path);
  {
    const std::lock_guard lock(mutex);
    const auto found = cache.find(path);
    if (found != cache.end() && found->second.text == text) return found->second.root;
  }
  const std::shared_ptr<const Node> root = parse_document(text, path, reference_folder(path));
  const std::lock_guard lock(mutex);
  cache[path] = {std::move(text), root};
  return root;
}

}  // namespace panpipe
