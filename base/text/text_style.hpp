// How text for people is set: colour, characters, width. The command line knows the terminal; libraries are given the style.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace panpipe {

constexpr std::string_view kGreen = "32", kYellow = "33", kRed = "31", kBold = "1", kGrey = "90";

struct TextStyle {
  bool color = false;
  bool ascii = false;  // bars and dots in ASCII
  int width = 0;       // columns that lines may have; 0: as many as they need

  bool fits(std::size_t columns) const { return width <= 0 || columns <= static_cast<std::size_t>(width); }
  // The text in a colour of this file, where colours are shown.
  std::string paint(std::string_view code, const std::string& text) const {
    return color ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }
};

// Columns that the text takes on a terminal: a character each, none for colours.
std::size_t columns_of(std::string_view text);

// Breaks lines that are wider than `width` (0: never) between words. What goes on below starts under the text of its line, or
// `hanging` columns from the left where that is given. A word that is too wide stays whole.
std::string wrapped(const std::string& text, int width, int hanging = -1);

// At most `columns` wide: "..." stands for what is left out in the middle.
std::string shortened(const std::string& text, std::size_t columns);

}  // namespace panpipe
