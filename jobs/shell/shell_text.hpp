// Text that a script makes: pieces, each with the place where it stands or the unknown that it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct ShellPiece {
  std::string text = {};   // empty if unknown
  int file = -1;           // index of the file where the text stands; -1: computed
  std::size_t offset = 0;  // of its first byte there
  int unknown = -1;        // index of an unknown; -1: known
  int note = -1;           // index of an assumption behind it; -1: none

  bool operator==(const ShellPiece& other) const { return text == other.text && unknown == other.unknown; }
};

class ShellText {
 public:
  ShellText() = default;
  explicit ShellText(std::string_view computed) { append(std::string(computed)); }
  static ShellText of_unknown(int unknown);

  void append(std::string computed);
  void append(ShellPiece piece);
  void append(const ShellText& other);
  bool known() const;
  bool empty() const;         // no text and nothing unknown
  std::size_t size() const;   // bytes, and one for each unknown
  std::string plain() const;  // the known text
  // In one string: unknown pieces as kUnknownBegin, index, kUnknownEnd.
  std::string flat() const;
  // A text that is known, from byte `begin`.
  ShellText known_part(std::size_t begin, std::size_t length) const;
  std::vector<int> unknowns() const;
  const std::vector<ShellPiece>& pieces() const { return pieces_; }
  std::vector<ShellPiece>& pieces() { return pieces_; }
  bool same_as(const ShellText& other) const { return flat() == other.flat(); }

 private:
  std::vector<ShellPiece> pieces_;
};

// Control bytes, which text never holds.
constexpr char kUnknownBegin = '\x01', kUnknownEnd = '\x02';

// A text to parse: flat, with the way back to the pieces.
class ShellSource {
 public:
  explicit ShellSource(const ShellText& text);
  const std::string& text() const { return text_; }
  ShellText cut(std::size_t begin, std::size_t end) const;
  // The file and offset of a byte; file -1 if it was computed.
  ShellPiece at(std::size_t position) const;

 private:
  struct Span {
    std::size_t begin;
    ShellPiece piece;  // without its text
  };
  std::size_t span_of(std::size_t position) const;
  std::string text_;
  std::vector<Span> spans_;
};

}  // namespace panpipe::jobs
