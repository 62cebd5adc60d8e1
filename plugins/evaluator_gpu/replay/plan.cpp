#include "plan.hpp"

#include <nlohmann/json.hpp>

namespace kernel_evolve::replay {
namespace {

using nlohmann::json;

constexpr uint32_t kMostGrid = 2147483647U;  // the driver knows the limits of each dimension
constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostShared = 1U << 20U;
constexpr uint32_t kMostTensorTypes = 15;
constexpr uint32_t kMostSwizzles = 6;
constexpr uint32_t kMostBox = 256;
constexpr size_t kMostDimensions = 5;

[[noreturn]] void Refuse(const std::string& what) { throw BadRequest("the plan has " + what); }

uint64_t Whole(const json& value, const char* what) {
  const bool whole = value.is_number_integer();
  if (!whole || (!value.is_number_unsigned() && value.get<int64_t>() < 0)) {
    Refuse(std::string("no whole number as ") + what);
  }
  return value.get<uint64_t>();
}

uint32_t Bounded(const json& value, uint32_t least, uint32_t most, const char* what) {
  const uint64_t number = Whole(value, what);
  if (number < least || number > most) {
    Refuse(std::string(what) + " of " + std::to_string(number) + ", outside " +
           std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<uint32_t>(number);
}

size_t Index(const json& value, size_t count, const char* what) {
  const uint64_t number = Whole(value, what);
  if (number >= count) Refuse(std::string("no ") + what + " " + std::to_string(number));
  return number;
}

unsigned char Byte(const json& value) {
  return static_cast<unsigned char>(Bounded(value, 0, 255, "a byte"));
}

unsigned Digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10U;
  Refuse("a value that is not in hexadecimal digits");
}

// A range of a buffer, both numbers checked against its size.
void CheckRange(const PlannedBuffer& buffer, uint64_t offset, uint64_t bytes) {
  if (offset > buffer.bytes || bytes > buffer.bytes - offset) Refuse("a range outside its buffer");
}

TensorMap ReadMap(const json& text) {
  TensorMap out;
  out.type = static_cast<int>(Bounded(text.at("type"), 0, kMostTensorTypes, "a tensor's type"));
  out.swizzle = static_cast<int>(Bounded(text.at("swizzle"), 0, kMostSwizzles, "a swizzle"));
  out.nan = text.at("nan").get<bool>();
  for (const json& number : text.at("shape")) out.shape.push_back(Whole(number, "a shape"));
  for (const json& number : text.at("strides")) out.strides.push_back(Whole(number, "a stride"));
  for (const json& number : text.at("box")) {
    out.box.push_back(Bounded(number, 1, kMostBox, "a tile"));
  }
  const size_t dimensions = out.shape.size();
  if (dimensions < 1 || dimensions > kMostDimensions || out.box.size() != dimensions ||
      out.strides.size() != dimensions - 1) {
    Refuse("a tensor map whose numbers don't fit together");
  }
  return out;
}

Parameter ReadParameter(const json& text, const Plan& plan) {
  Parameter out;
  if (text.contains("buffer")) {
    out.buffer = Index(text["buffer"], plan.buffers.size(), "buffer");
    out.offset = Whole(text.value("offset", json(0)), "an offset");
    CheckRange(plan.buffers[*out.buffer], out.offset, 0);
    if (text.contains("map")) out.map = ReadMap(text["map"]);
    return out;
  }
  const std::string digits = text.value("value", "");
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() > 2 * out.value.size()) {
    Refuse("a parameter without a buffer or a value of 1 to 8 bytes");
  }
  for (size_t i = 0; i < digits.size() / 2; ++i) {
    out.value[i] = static_cast<unsigned char>(Digit(digits[2 * i]) * 16 + Digit(digits[2 * i + 1]));
  }
  return out;
}

Range ReadRange(const json& text, const Plan& plan) {
  const Range out = {Index(text.at("buffer"), plan.buffers.size(), "buffer"),
                     Whole(text.at("offset"), "an offset"), Whole(text.at("bytes"), "a size")};
  CheckRange(plan.buffers[out.buffer], out.offset, out.bytes);
  return out;
}

Step ReadStep(const json& text, const Plan& plan) {
  Step out;
  if (text.contains("fill")) {
    out.fill = Byte(text["fill"]);
    out.range = ReadRange(text, plan);
    return out;
  }
  out.kernel = Index(text.at("kernel"), plan.kernels.size(), "kernel");
  const json& grid = text.at("grid");
  if (!grid.is_array() || grid.size() != 3) Refuse("a grid that is not three numbers");
  for (size_t i = 0; i < 3; ++i) out.grid[i] = Bounded(grid[i], 0, kMostGrid, "a grid");
  for (const json& parameter : text.at("parameters")) {
    out.parameters.push_back(ReadParameter(parameter, plan));
  }
  return out;
}

}  // namespace

Plan ReadPlan(const json& text, uint64_t shared_bytes) {
  Plan plan;
  try {
    for (const json& item : text.at("buffers")) {
      PlannedBuffer buffer;
      buffer.bytes = Whole(item.at("bytes"), "a size");
      if (item.contains("data")) buffer.data = Whole(item["data"], "an offset");
      const uint64_t at = buffer.data.value_or(0);
      if (buffer.data && (at > shared_bytes || buffer.bytes > shared_bytes - at)) {
        Refuse("a buffer whose content lies outside the shared memory");
      }
      plan.buffers.push_back(buffer);
    }
    for (const json& item : text.at("kernels")) {
      plan.kernels.push_back({item.at("cubin"), item.at("name"),
                              Bounded(item.at("shared"), 0, kMostShared, "shared memory"),
                              Bounded(item.at("threads"), 1, kMostThreads, "threads"),
                              item.value("fresh", false)});
    }
    for (const json& item : text.at("steps")) plan.steps.push_back(ReadStep(item, plan));
    for (const json& item : text.at("results")) plan.results.push_back(ReadRange(item, plan));
  } catch (const json::exception& error) {
    throw BadRequest(std::string("the plan cannot be read: ") + error.what());
  }
  return plan;
}

}  // namespace kernel_evolve::replay
