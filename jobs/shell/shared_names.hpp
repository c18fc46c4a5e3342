// Values by name. A copy shares all that neither has changed: a script's state is copied at each condition that is not known, in
// each subshell and for each substitution.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace panpipe::jobs {

template <class Value>  // a pointer; null: not set
class SharedNames {
 public:
  Value find(const std::string& name) const {
    const auto& bucket = buckets_[bucket_of(name)];
    if (!bucket) return nullptr;
    const auto found = bucket->find(name);
    return found == bucket->end() ? nullptr : found->second;
  }
  void set(const std::string& name, const Value& value) {
    auto& bucket = buckets_[bucket_of(name)];
    auto changed = bucket ? std::make_shared<Bucket>(*bucket) : std::make_shared<Bucket>();
    if (value)
      (*changed)[name] = value;
    else
      changed->erase(name);
    bucket = std::move(changed);
  }
  void erase(const std::string& name) { set(name, nullptr); }

  template <class Predicate>
  void keep(const Predicate& wanted) {
    for (auto& bucket : buckets_) {
      if (!bucket) continue;
      auto kept = std::make_shared<Bucket>(*bucket);
      std::erase_if(*kept, [&](const auto& entry) { return !wanted(*entry.second); });
      bucket = std::move(kept);
    }
  }

  // In order; the work is that of what has changed.
  std::set<std::string> names_that_differ(const SharedNames& other) const {
    std::set<std::string> names;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] == other.buckets_[i]) continue;
      for (const auto& bucket : {buckets_[i], other.buckets_[i]}) {
        if (!bucket) continue;
        for (const auto& [name, value] : *bucket)
          if (find(name) != other.find(name)) names.insert(name);
      }
    }
    return names;
  }

 private:
  using Bucket = std::map<std::string, Value>;
  static constexpr std::size_t kBuckets = 128;

  static std::size_t bucket_of(const std::string& name) {
    std::size_t sum = 0;
    for (const char c : name) sum = sum * 31 + static_cast<unsigned char>(c);
    return sum % kBuckets;
  }

  std::array<std::shared_ptr<const Bucket>, kBuckets> buckets_ = {};
};

}  // namespace panpipe::jobs
