#include "jobs/shell/shell_text.hpp"

#include <algorithm>

namespace panpipe::jobs {

ShellText ShellText::of_unknown(int unknown) {
  ShellText text;
  ShellPiece piece;
  piece.unknown = unknown;
  text.append(std::move(piece));
  return text;
}

void ShellText::append(std::string computed) {
  ShellPiece piece;
  piece.text = std::move(computed);
  append(std::move(piece));
}

void ShellText::append(ShellPiece piece) {
  if (piece.text.empty() && piece.unknown < 0 && piece.note < 0) return;
  if (!pieces_.empty() && piece.unknown < 0) {
    ShellPiece& last = pieces_.back();
    const bool follows =
        piece.file < 0 ? last.file < 0 : last.file == piece.file && last.offset + last.text.size() == piece.offset;
    if (follows && last.unknown < 0 && last.note == piece.note) {
      last.text += piece.text;
      return;
    }
  }
  pieces_.push_back(std::move(piece));
}

void ShellText::append(const ShellText& other) {
  for (const ShellPiece& piece : other.pieces_) append(piece);
}

bool ShellText::known() const {
  return std::all_of(pieces_.begin(), pieces_.end(), [](const ShellPiece& piece) { return piece.unknown < 0; });
}

bool ShellText::empty() const { return size() == 0; }

std::size_t ShellText::size() const {
  std::size_t size = 0;
  for (const ShellPiece& piece : pieces_) size += piece.text.size() + (piece.unknown < 0 ? 0 : 1);
  return size;
}

std::string ShellText::plain() const {
  std::string text;
  for (const ShellPiece& piece : pieces_) text += piece.text;
  return text;
}

std::string ShellText::flat() const {
  std::string text;
  for (const ShellPiece& piece : pieces_) {
    if (piece.unknown < 0)
      text += piece.text;
    else
      text += kUnknownBegin + std::to_string(piece.unknown) + kUnknownEnd;
  }
  return text;
}

ShellText ShellText::known_part(std::size_t begin, std::size_t length) const {
  ShellText part;
  const std::size_t end = length > size() - std::min(begin, size()) ? size() : begin + length;
  std::size_t at = 0;
  for (const ShellPiece& piece : pieces_) {
    const std::size_t from = std::max(begin, at), to = std::min(end, at + piece.text.size());
    if (from < to) {
      ShellPiece cut = piece;
      cut.text = piece.text.substr(from - at, to - from);
      cut.offset += from - at;
      part.append(std::move(cut));
    }
    at += piece.text.size();
  }
  return part;
}

std::vector<int> ShellText::unknowns() const {
  std::vector<int> found;
  for (const ShellPiece& piece : pieces_)
    if (piece.unknown >= 0 && std::find(found.begin(), found.end(), piece.unknown) == found.end()) found.push_back(piece.unknown);
  return found;
}

ShellSource::ShellSource(const ShellText& text) {
  for (const ShellPiece& piece : text.pieces()) {
    spans_.push_back({text_.size(), piece});
    spans_.back().piece.text.clear();
    ShellText one;
    one.append(piece);
    text_ += one.flat();
  }
}

std::size_t ShellSource::span_of(std::size_t position) const {
  const auto next = std::upper_bound(spans_.begin(), spans_.end(), position,
                                     [](std::size_t value, const Span& span) { return value < span.begin; });
  return next == spans_.begin() ? 0 : static_cast<std::size_t>(next - spans_.begin()) - 1;
}

ShellText ShellSource::cut(std::size_t begin, std::size_t end) const {
  ShellText text;
  if (spans_.empty()) return text;
  for (std::size_t i = span_of(begin); i < spans_.size() && spans_[i].begin < end; ++i) {
    const std::size_t stop = i + 1 < spans_.size() ? spans_[i + 1].begin : text_.size();
    const std::size_t from = std::max(begin, spans_[i].begin), to = std::min(end, stop);
    if (from >= to) continue;
    ShellPiece piece = spans_[i].piece;
    if (piece.unknown < 0) {
      piece.text = text_.substr(from, to - from);
      piece.offset += from - spans_[i].begin;
    } else if (from > spans_[i].begin) {
      continue;  // its first byte stands for all of it
    }
    text.append(std::move(piece));
  }
  return text;
}

ShellPiece ShellSource::at(std::size_t position) const {
  if (spans_.empty()) return {};
  const Span& span = spans_[span_of(position)];
  ShellPiece piece = span.piece;
  piece.offset += position - span.begin;
  return piece;
}

}  // namespace panpipe::jobs
