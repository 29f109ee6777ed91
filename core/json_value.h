// JSON texts by their values: equal values have equal forms, whatever their spelling.
//
//     a string    in quotes, its characters as UTF-8, with quotes and backslashes escaped
//     a number    [-]digits e exponent, of 0.digits · 10^exponent without zeros at either end; 0
//     an array    its items, each with a comma after it
//     an object   its members in the order of their names, of equal names the last
#pragma once

#include <cctype>

#include "common.h"

namespace tractile {

class JsonValue {
 public:
  // The form of a JSON text. An unfinished text is closed first: open brackets end, and a member without a value has the value 0. Other
  // texts have some form, too.
  static std::string form(const std::string& text) {
    JsonValue read(text);
    std::string last = read.tokens(false);
    if (!last.empty()) read.put(std::move(last));
    for (; !read.open_.empty(); read.close())
      if (read.open_.back().has_name) read.put("0");
    return read.found_;
  }

  // A form of a beginning: where it is equal, what follows gives equal values. `goes_on`: a number at its end may go on.
  static std::string beginning(const std::string& text, bool goes_on) {
    JsonValue read(text);
    std::string last = read.tokens(goes_on), found = read.found_;
    for (Level& level : read.open_) found += level.is_object ? "{" + in_order(level) + level.name : "[" + level.items;
    return found + last;
  }

  // Where the string begins within which, at a character, a beginning ends; npos if it ends elsewhere, or after a half of a pair.
  static size_t string_in_progress(const std::string& text) {
    size_t begin = std::string::npos;
    for (size_t i = 0; i < text.size(); ++i) {
      if (begin != std::string::npos && text[i] == '\\') {
        bool number = i + 1 < text.size() && text[i + 1] == 'u';
        if (number && i + 3 < text.size() && (text[i + 2] | 32) == 'd' && i + 6 >= text.size()) return std::string::npos;
        i += number ? 5 : 1;
        if (i >= text.size()) return std::string::npos;
      } else if (text[i] == '"') {
        begin = begin == std::string::npos ? i : std::string::npos;
      }
    }
    return begin;
  }

  // f(place) of each string of a form, from its quote on.
  template <class F>
  static void strings(const std::string& form, F&& f) {
    bool inside = false;
    for (size_t i = 0; i < form.size(); ++i) {
      if (form[i] == '"') {
        if (!inside) f(i);
        inside = !inside;
      } else if (form[i] == '\\') {
        ++i;
      }
    }
  }

  // The letter that stands for a character after a backslash, 0 if there is none.
  static char escaped(char character) {
    static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
    const char* at = character ? std::strchr(to, character) : nullptr;
    return at ? from[at - to] : 0;
  }

 private:
  struct Level {
    bool is_object;
    std::string items, name;
    bool has_name;
    std::vector<std::pair<std::string, std::string>> members;
  };

  explicit JsonValue(const std::string& text) : text_(text) {}

  // Read the tokens; return what is read of a string without its end, and of a number or word at the end if it `goes_on`.
  std::string tokens(bool goes_on) {
    while (at_ < text_.size()) {
      size_t begin = at_;
      char c = text_[at_];
      if (c == '"') {
        std::string value = string();
        if (!ended_) return value;
        put(std::move(value));
      } else if (c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) {
        std::string value = c >= 'a' ? word() : number();
        if (goes_on && at_ == text_.size()) return c >= 'a' ? value : in_progress(text_.substr(begin));
        put(std::move(value));
      } else {
        ++at_;
        if (c == '[' || c == '{') open_.push_back({c == '{', "", "", false, {}});
        else if ((c == ']' || c == '}') && !open_.empty()) close();
      }
    }
    return "";
  }

  void put(std::string value) {
    if (open_.empty()) {
      found_ = std::move(value);
      return;
    }
    Level& level = open_.back();
    if (!level.is_object) {
      level.items += value + ",";
    } else if (!level.has_name) {
      level.name = std::move(value);
      level.has_name = true;
    } else {
      level.members.push_back({std::move(level.name), std::move(value)});
      level.name.clear();
      level.has_name = false;
    }
  }

  void close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    put(level.is_object ? "{" + in_order(level) + "}" : "[" + level.items + "]");
  }

  // The members of an object by name, of equal names the last.
  static std::string in_order(Level& level) {
    auto& members = level.members;
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string all;
    for (size_t i = 0; i < members.size(); ++i)
      if (i + 1 == members.size() || members[i].first != members[i + 1].first) all += members[i].first + ":" + members[i].second + ",";
    return all;
  }

  std::string word() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= 'a' && text_[at_] <= 'z') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string digits() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool next(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string number() {
    bool negative = next('-');
    std::string written = digits();
    long long shift = static_cast<long long>(written.size());  // of the point, beside what the exponent says
    std::string exponent;
    bool down = false;
    if (next('.')) written += digits();
    if (next('e') || next('E')) {
      down = next('-');
      if (!down) next('+');
      exponent = digits();
      exponent.erase(0, std::min(exponent.find_first_not_of('0'), exponent.size()));
    }
    size_t zeros = std::min(written.find_first_not_of('0'), written.size());
    if (zeros == written.size()) return "0";
    size_t end = written.find_last_not_of('0') + 1;
    shift -= static_cast<long long>(zeros);
    return (negative ? "-" : "") + written.substr(zeros, end - zeros) + "e" + sum(exponent, down, shift);
  }

  // A number that may go on. Where its exponent has begun, of equal forms the same follows: the value of what is before it, and its digits
  // without zeros at their beginning; of 0 none.
  static std::string in_progress(const std::string& text) {
    const size_t at = std::min(text.find_first_of("eE"), text.size());
    if (at == text.size()) return text;
    const std::string before = form(text.substr(0, at));
    if (before == "0" || before == "-0") return "0e";
    const bool down = text[at + 1] == '-';
    const size_t digits = std::min(text.find_first_of("123456789", at), text.size());
    return before + (down ? "e-" : "e") + text.substr(digits);
  }

  // A number of any size, negative if `down`, and a small one.
  static std::string sum(std::string digits, bool down, long long more) {
    if (digits.size() <= 15) {
      long long number = digits.empty() ? 0 : std::strtoll(digits.c_str(), nullptr, 10);
      return std::to_string((down ? -number : number) + more);
    }
    long long carry = down ? -more : more;  // smaller than the number: the sign stays
    for (size_t i = digits.size(); i-- > 0 && carry;) {
      long long digit = digits[i] - '0' + carry;
      carry = digit >= 0 ? digit / 10 : -((9 - digit) / 10);
      digits[i] = char('0' + (digit - carry * 10));
    }
    if (carry > 0) digits = std::to_string(carry) + digits;
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
    return (down ? "-" : "") + digits;
  }

  std::string string() {
    std::string found = "\"";
    auto add = [&](char c) {
      if (c == '"' || c == '\\') found += '\\';
      found += c;
    };
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      char c = text_[at_++];
      if (c != '\\') {
        add(c);
        continue;
      }
      if (text_.size() - at_ < (at_ < text_.size() && text_[at_] == 'u' ? 5 : 1)) {  // the beginning of an escape
        for (--at_; at_ < text_.size(); ++at_) found += char(std::tolower(text_[at_]));
        break;
      }
      c = text_[at_++];
      static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
      if (c == 'u') {
        unsigned code = unit();
        if (code >= 0xD800 && code < 0xDC00 && at_ + 1 < text_.size() && text_[at_] == '\\' && text_[at_ + 1] == 'u') {
          size_t back = at_;
          at_ += 2;
          unsigned low = unit();
          if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          else at_ = back;
        }
        utf8(code, add);
      } else {
        size_t which = std::string(from).find(c);
        add(which == std::string::npos ? c : to[which]);
      }
    }
    ended_ = at_ < text_.size();
    if (!ended_) return found;
    ++at_;
    return found + "\"";
  }

  unsigned unit() {
    unsigned code = 0;
    for (int i = 0; i < 4 && at_ < text_.size(); ++i) {
      char c = text_[at_++];
      code = code * 16 + unsigned(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return code & 0xFFFF;
  }

  template <class F>
  static void utf8(unsigned code, F&& add) {
    if (code < 0x80) {
      add(char(code));
      return;
    }
    if (code < 0x800) {
      add(char(0xC0 | code >> 6));
    } else {
      if (code < 0x10000) {
        add(char(0xE0 | code >> 12));
      } else {
        add(char(0xF0 | code >> 18));
        add(char(0x80 | (code >> 12 & 63)));
      }
      add(char(0x80 | (code >> 6 & 63)));
    }
    add(char(0x80 | (code & 63)));
  }

  const std::string& text_;
  size_t at_ = 0;
  bool ended_ = true;  // whether the last string has its end
  std::string found_;
  std::vector<Level> open_;
};

}  // namespace tractile
