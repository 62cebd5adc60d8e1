// Texts cut to a number of bytes, each with a mark that says what is missing. The same text and
// size give the same bytes; a character of UTF-8 is never split. Pure functions.
#pragma once

#include <cstddef>
#include <string>

namespace kernel_nodes {

// Keeps the beginning: "text\n[... 1234 bytes left out]".
std::string ShortenEnd(const std::string& text, size_t bytes);

// Keeps the first and the last lines: "...\n# [... 12 lines left out here ...]\n...". The mark is a
// comment in Python, so that code stays code to the eye.
std::string ShortenMiddle(const std::string& text, size_t bytes);

// Of a list whose items begin with "- ", keeps the newest (last) ones:
// "- [... 3 older ones left out]\n- item\n- item".
std::string ShortenList(const std::string& text, size_t bytes);

// What a text that is left out altogether is replaced by: "# 120 lines, left out to save room".
std::string LeftOut(const std::string& text);

}  // namespace kernel_nodes
