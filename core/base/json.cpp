#include "core/base/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace kernel_evolve {
namespace {

constexpr size_t kMaxDepth = 256;

const Json& NullJson() {
  static const Json null;
  return null;
}

// Builds our tree from the library's events; the library's own tree is never made.
class Builder {
 public:
  Json root;
  std::string problem;
  size_t offset = 0;

  bool null() { return Put(Json()); }
  bool boolean(bool value) { return Put(Json(value)); }
  bool number_integer(int64_t value) { return Put(Json(value)); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Put(Json(static_cast<double>(value)));
    }
    return Put(Json(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string&) { return Put(Json(value)); }
  bool string(std::string& value) { return Put(Json(std::move(value))); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return Open(Json(Json::Object{})); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(Json(Json::Array{})); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    offset = position;
    problem = e.what();
    return false;
  }

 private:
  Json* Place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.array().push_back(std::move(value));
      return &parent.array().back();
    }
    Json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (open_.size() >= kMaxDepth) {
      problem = "nested more than 256 levels deep";
      return false;
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::string key_;
};

nlohmann::json ToLibrary(const Json& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_integer()) return value.integer();
  if (value.is_double()) return value.number();
  if (value.is_string()) return value.string();
  if (value.is_array()) {
    nlohmann::json out = nlohmann::json::array();
    for (const Json& item : value.array()) out.push_back(ToLibrary(item));
    return out;
  }
  if (value.is_object()) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& [key, member] : value.object()) out[key] = ToLibrary(member);
    return out;
  }
  return nullptr;
}

}  // namespace

Json Json::Obj(std::initializer_list<std::pair<const std::string, Json>> members) {
  Object object;
  for (const auto& [key, value] : members) object.insert_or_assign(key, value);
  return {std::move(object)};
}

Json Json::Arr(std::initializer_list<Json> items) { return {Array(items)}; }

const char* Json::type_name() const {
  static constexpr const char* kNames[] = {"null",   "bool",  "integer", "number",
                                           "string", "array", "object"};
  return kNames[data_.index()];
}

double Json::number() const {
  return is_integer() ? static_cast<double>(integer()) : std::get<double>(data_);
}

const Json& Json::operator[](std::string_view key) const {
  if (!is_object()) return NullJson();
  const auto found = object().find(key);
  return found == object().end() ? NullJson() : found->second;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) data_ = Object{};
  const auto found = object().find(key);
  if (found != object().end()) return found->second;
  return object()[std::string(key)];
}

bool Json::contains(std::string_view key) const { return is_object() && object().contains(key); }

size_t Json::size() const {
  if (is_array()) return array().size();
  return is_object() ? object().size() : 0;
}

void Json::push_back(Json value) {
  if (is_null()) data_ = Array{};
  array().push_back(std::move(value));
}

std::string Json::Text(std::string_view key, std::string_view fallback) const {
  const Json& member = (*this)[key];
  return member.is_string() ? member.string() : std::string(fallback);
}

double Json::Number(std::string_view key, double fallback) const {
  const Json& member = (*this)[key];
  return member.is_number() ? member.number() : fallback;
}

int64_t Json::Integer(std::string_view key, int64_t fallback) const {
  const Json& member = (*this)[key];
  return member.is_integer() ? member.integer() : fallback;
}

bool Json::Flag(std::string_view key, bool fallback) const {
  const Json& member = (*this)[key];
  return member.is_bool() ? member.boolean() : fallback;
}

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (is_integer() && other.is_integer()) return integer() == other.integer();
    return number() == other.number();
  }
  return data_ == other.data_;
}

std::string Json::Dump(int indent) const {
  return ToLibrary(*this).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Json> Json::Parse(std::string_view text) {
  Builder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return std::move(builder.root);
  std::string problem = builder.problem;
  // The library prefixes "[json.exception.parse_error.101] parse error at line 1, column 2: ".
  if (const size_t at = problem.find("at line "); at != std::string::npos) {
    problem = problem.substr(at);
  }
  return Failed(ErrorClass::kValidation, "not valid JSON: " + problem);
}

}  // namespace kernel_evolve
