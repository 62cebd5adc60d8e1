// Json: the value that flows through state, effects, plugins and the journal.
//
// A small value type of our own, so that only json.cpp pays for the JSON library's headers.
// Objects are kept sorted by key: equal values print as equal bytes, which hashes and the journal
// rely on. Integers (64-bit) and numbers (double) are kept apart and compare by value.
// Not synchronised: share between threads only as const.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() = default;
  Json(std::nullptr_t) {}                                     // NOLINT(google-explicit-constructor)
  Json(bool value) : data_(value) {}                          // NOLINT(google-explicit-constructor)
  Json(int value) : data_(int64_t{value}) {}                  // NOLINT(google-explicit-constructor)
  Json(int64_t value) : data_(value) {}                       // NOLINT(google-explicit-constructor)
  Json(size_t value) : data_(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  Json(double value) : data_(value) {}                        // NOLINT(google-explicit-constructor)
  Json(const char* value) : data_(std::string(value)) {}      // NOLINT(google-explicit-constructor)
  Json(std::string value) : data_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Json(std::string_view value)
      : data_(std::string(value)) {}               // NOLINT(google-explicit-constructor)
  Json(Array value) : data_(std::move(value)) {}   // NOLINT(google-explicit-constructor)
  Json(Object value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  // Json::Obj({{"a", 1}, {"b", Json::Arr({1, 2})}}): explicit, so that a pair is never an array.
  static Json Obj(std::initializer_list<std::pair<const std::string, Json>> members = {});
  static Json Arr(std::initializer_list<Json> items = {});

  bool is_null() const { return data_.index() == 0; }
  bool is_bool() const { return data_.index() == 1; }
  bool is_integer() const { return data_.index() == 2; }
  bool is_double() const { return data_.index() == 3; }
  bool is_number() const { return is_integer() || is_double(); }
  bool is_string() const { return data_.index() == 4; }
  bool is_array() const { return data_.index() == 5; }
  bool is_object() const { return data_.index() == 6; }
  const char* type_name() const;  // "null", "bool", "integer", "number", "string", ...

  // Each asserts that the value has that type (number also takes an integer).
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return std::get<int64_t>(data_); }
  double number() const;
  const std::string& string() const { return std::get<std::string>(data_); }
  const Array& array() const { return std::get<Array>(data_); }
  Array& array() { return std::get<Array>(data_); }
  const Object& object() const { return std::get<Object>(data_); }
  Object& object() { return std::get<Object>(data_); }

  // Lookup that never fails: null Json when this is no object or lacks the key.
  const Json& operator[](std::string_view key) const;
  // Inserts a null when missing; a null value becomes an object first.
  Json& operator[](std::string_view key);
  bool contains(std::string_view key) const;
  size_t size() const;         // members or items; 0 for a scalar
  void push_back(Json value);  // a null value becomes an array first

  // Forgiving reads of an object's member: the fallback when it is missing or of another type.
  std::string Text(std::string_view key, std::string_view fallback = "") const;
  double Number(std::string_view key, double fallback = 0) const;
  int64_t Integer(std::string_view key, int64_t fallback = 0) const;
  bool Flag(std::string_view key, bool fallback = false) const;

  bool operator==(const Json& other) const;

  // One line without blanks, or indented. Not-a-number and infinities print as null; bytes that are
  // not UTF-8 print as U+FFFD.
  std::string Dump(int indent = -1) const;
  // Strict JSON, at most 256 levels deep. The error says line and column.
  static Result<Json> Parse(std::string_view text);

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> data_;
};

}  // namespace kernel_evolve
