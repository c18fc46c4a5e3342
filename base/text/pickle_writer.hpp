// Writes plain data as a pickle of Python (protocol 2): what pickle.load and viewers of PyTorch's memory snapshots read. Each
// text is written once and referred to afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace panpipe {

// Misuse (a key without its value, one end() too many) is a bug of ours and throws InternalError.
class PickleWriter {
 public:
  PickleWriter();

  // end() closes the innermost that is open. In a dict keys and values take turns.
  PickleWriter& dict() { return begin(false); }
  PickleWriter& list() { return begin(true); }
  PickleWriter& end();

  PickleWriter& text(std::string_view text);  // UTF-8, below 4 GiB
  PickleWriter& integer(std::int64_t number);
  PickleWriter& real(double number);
  PickleWriter& boolean(bool value);
  PickleWriter& pair(std::int64_t first, std::int64_t second);  // a tuple

  PickleWriter& field(std::string_view key, std::string_view value) { return text(key).text(value); }
  PickleWriter& field(std::string_view key, std::int64_t value) { return text(key).integer(value); }

  // The value that was written last, a dict or a list that was closed: `again` with this number writes it without a copy.
  std::uint32_t remember();
  PickleWriter& again(std::uint32_t number);

  std::string finish();

 private:
  struct Level {
    bool is_list = false;
    std::size_t entries = 0;
  };

  PickleWriter& begin(bool is_list);
  void before_entry();
  void byte(unsigned value) { out_ += static_cast<char>(value); }
  void bytes(std::uint64_t value, int count);  // the lowest first

  std::string out_;
  std::vector<Level> open_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t memos_ = 0;
  bool has_value_ = false;  // on the top level
};

}  // namespace panpipe
