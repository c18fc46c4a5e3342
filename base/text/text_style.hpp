// The style of text for people: colour, characters, width. The command line queries the terminal; libraries receive the style.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace panpipe {

constexpr std::string_view kGreen = "32", kYellow = "33", kRed = "31", kBold = "1", kGrey = "90";

struct TextStyle {
  bool color = false;
  bool ascii = false;  // draw bars and dots in ASCII
  int width = 0;       // the widest line, in columns; 0: unlimited

  bool fits(std::size_t columns) const { return width <= 0 || columns <= static_cast<std::size_t>(width); }
  // The text in a colour of this file, if colours are on.
  std::string paint(std::string_view code, const std::string& text) const {
    return color ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }
};

// Columns that the text occupies on a terminal: one per character, none for colour codes.
std::size_t columns_of(std::string_view text);

// Breaks lines wider than `width` (0: never) between words. Continuation lines align with the text of their line, or start at
// column `hanging` if given. A word that is too wide stays whole.
std::string wrapped(const std::string& text, int width, int hanging = -1);

// Shortens text to `columns`, with "..." for the removed middle.
std::string shortened(const std::string& text, std::size_t columns);

}  // namespace panpipe
