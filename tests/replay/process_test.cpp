// The process: how it starts and ends, and requests that make no sense.
#include <iterator>
#include <map>

#include "plugins/evaluator_gpu/replay/cuda.hpp"
#include "tests/replay/replay.hpp"

namespace kernel_evolve::testing {
namespace {

// -- starting and ending --------------------------------------------------------------------------

TEST_F(Replay, SaysWhatItFound) {
  Child child;
  const json ready = child.Read();
  EXPECT_EQ(ready.at("ok"), true);
  EXPECT_EQ(ready.at("name"), "Imagined GPU");
  EXPECT_EQ(ready.at("bus"), "0000:01:00.0");
  EXPECT_EQ(ready.at("driver"), 12080);
  EXPECT_EQ(ready.at("sms"), 4);
  EXPECT_EQ(ready.at("l2_bytes"), 64 << 10);
  EXPECT_EQ(ready.at("memory_bytes"), 1 << 30);
  EXPECT_EQ(ready.at("pageable_memory_access"), 0);
  EXPECT_LT(ready.at("free_bytes"), ready.at("memory_bytes"));
  EXPECT_EQ(child.Ask({{"op", "describe"}}), ready);
}

TEST_F(Replay, EndsWithItsInput) {
  Child child;
  EXPECT_EQ(child.Read().at("ok"), true);
  child.CloseInput();
  EXPECT_EQ(child.Read(), nullptr);
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(Replay, EndsWithItsInputInAKernelThatNeverEnds) {
  Child child;
  (void)child.Read();
  EXPECT_EQ(Load(&child, PlanOf("hang", {})).at("ok"), true);
  child.Send(R"({"op": "run"})");
  child.CloseInput();
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(Replay, WithoutADriverSaysSo) {
  std::ofstream(folder_ / "libcuda.so.1").flush();  // nothing that loads, before a real one
  Child child({folder_, {}});
  const json answer = child.Read();
  EXPECT_EQ(answer.at("ok"), false);
  EXPECT_EQ(answer.at("kind"), "device");
  EXPECT_THAT(std::string(answer.at("message")),
              HasSubstr("there is no NVIDIA driver (libcuda.so.1) here; run on a machine with an"));
  EXPECT_EQ(child.Read(), nullptr);
  EXPECT_EQ(child.Wait(), 3);
}

TEST_F(Replay, NamesWhatADriverLacks) {
  std::ifstream file(FAKE_DRIVER, std::ios::binary);
  const std::string library = {std::istreambuf_iterator<char>(file), {}};
#define KE_NAME(member, name, ...) name,
  for (const std::string name : {KE_CUDA_FUNCTIONS(KE_NAME)}) {
#undef KE_NAME
    // The same library, with that function under another name.
    std::string without = library;
    const std::string whole = std::string(1, '\0') + name + std::string(1, '\0');
    size_t at = without.find(whole);
    ASSERT_NE(at, std::string::npos) << name;
    for (; at != std::string::npos; at = without.find(whole, at)) without[at + 1] = 'X';
    std::ofstream(folder_ / "libcuda.so.1", std::ios::binary) << without;
    Child child({folder_, {}});
    const json answer = child.Read();
    EXPECT_EQ(answer.value("message", ""),
              "the NVIDIA driver lacks " + name + "; install a driver for CUDA 12.0 or later");
    EXPECT_EQ(child.Wait(), 3);
  }
}

TEST_F(Replay, NamesWhatFailsAtTheStart) {
  const std::map<std::string, std::string> sentences = {
      {"cuInit:100", "starting CUDA: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"},
      {"cuDevicePrimaryCtxRetain:2", "making a context: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuModuleLoadData:200", "compiling the replay's kernels: CUDA_ERROR_INVALID_IMAGE"},
      {"cuMemAddressReserve:2", "reserving addresses: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuMemCreate:2", "allocating memory: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuDeviceGetName:999", "asking for the name: error 999"}};
  for (const auto& [failing, sentence] : sentences) {
    Child child({{}, {{"FAKE_CUDA_FAIL", failing}}});
    const json answer = child.Read();
    EXPECT_EQ(answer.value("message", ""), sentence);
    EXPECT_EQ(answer.value("kind", ""), "device");
    EXPECT_EQ(child.Wait(), 3);
  }
}

TEST_F(Replay, ADeviceThatIsNotThere) {
  Child::Options options;
  options.device = 3;
  Child child(options);
  EXPECT_EQ(child.Read().value("message", ""), "opening the device: CUDA_ERROR_INVALID_DEVICE");
  EXPECT_EQ(child.Wait(), 3);
}

// -- what makes no sense --------------------------------------------------------------------------

TEST_F(Replay, RefusesPlansThatMakeNoSense) {
  Child child;
  (void)child.Read();
  const json good = Scale();
  const auto refusal = [&](const std::string& where, const json& value) {
    json plan = good;
    plan[json::json_pointer(where)] = value;
    return Refusal(&child, {{"op", "load"}, {"plan", plan}});
  };
  const std::string first = "/steps/0/parameters/0";
  EXPECT_EQ(refusal("/steps/0/kernel", 1), "the plan has no kernel 1");
  EXPECT_EQ(refusal("/steps/0/kernel", -1), "the plan has no whole number as kernel");
  EXPECT_EQ(refusal("/steps/0/kernel", 0.5), "the plan has no whole number as kernel");
  EXPECT_EQ(refusal("/steps/0/grid", {1, 1}), "the plan has a grid that is not three numbers");
  EXPECT_EQ(refusal("/steps/0/grid", 1), "the plan has a grid that is not three numbers");
  EXPECT_EQ(refusal("/steps/0/grid/0", 1U << 31U),
            "the plan has a grid of 2147483648, outside 0 to 2147483647");
  EXPECT_EQ(refusal(first, At(2)), "the plan has no buffer 2");
  EXPECT_EQ(refusal(first, At(0, kBytes + 1)), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal(first, At(0, ~uint64_t{0})), "the plan has a range outside its buffer");
  for (const char* digits : {"", "0", "00112233445566778899"}) {
    EXPECT_EQ(refusal(first, {{"value", digits}}),
              "the plan has a parameter without a buffer or a value of 1 to 8 bytes");
  }
  for (const char* digits : {"0g", "0G", "AA", "0x"}) {
    EXPECT_EQ(refusal(first, {{"value", digits}}),
              "the plan has a value that is not in hexadecimal digits");
  }
  EXPECT_EQ(refusal("/kernels/0/threads", 1025), "the plan has threads of 1025, outside 1 to 1024");
  EXPECT_EQ(refusal("/kernels/0/threads", 0), "the plan has threads of 0, outside 1 to 1024");
  EXPECT_EQ(refusal("/kernels/0/shared", 1 << 21),
            "the plan has shared memory of 2097152, outside 0 to 1048576");
  EXPECT_EQ(refusal("/buffers/0/bytes", -4), "the plan has no whole number as a size");
  EXPECT_EQ(refusal("/buffers/0/data", child.shared_bytes()),
            "the plan has a buffer whose content lies outside the shared memory");
  EXPECT_EQ(refusal("/buffers/0/bytes", ~uint64_t{0}),
            "the plan has a buffer whose content lies outside the shared memory");
  EXPECT_EQ(refusal("/results/0/bytes", kBytes + 1), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal("/results/0/offset", ~uint64_t{0}), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal("/steps/0", {{"fill", 256}, {"buffer", 0}, {"offset", 0}, {"bytes", 1}}),
            "the plan has a byte of 256, outside 0 to 255");
  EXPECT_EQ(refusal("/steps/0", {{"fill", 0}, {"buffer", 0}, {"offset", 1}, {"bytes", kBytes}}),
            "the plan has a range outside its buffer");
  for (const char* where : {"/buffers", "/kernels", "/steps", "/results", "/steps/0", first.c_str(),
                            "/kernels/0/cubin", "/kernels/0/name", "/steps/0/parameters"}) {
    for (const json& value : {json(3), json("text")}) {
      if (value.is_string() && std::string(where).rfind("/kernels/0/", 0) == 0) continue;
      EXPECT_THAT(refusal(where, value), HasSubstr("the plan ")) << where << " " << value;
    }
  }
  EXPECT_EQ(Load(&child, good).at("ok"), true);
}

TEST_F(Replay, RefusesRequestsThatMakeNoSense) {
  Child child;
  (void)child.Read();
  EXPECT_EQ(Run(&child, Scale()).at("ok"), true);
  EXPECT_EQ(Refusal(&child, {{"op", "dance"}}), "there is no request 'dance'");
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 0}}), "too many samples");
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 100001}}), "too many samples");
  EXPECT_EQ(Refusal(&child, {{"op", "write"}, {"buffers", {1}}}), "buffer 1 has no first content");
  EXPECT_EQ(Refusal(&child, {{"op", "write"}, {"buffers", {-1}}}),
            "buffer 18446744073709551615 has no first content");
  EXPECT_EQ(Refusal(&child, {{"op", "fetch"}, {"buffers", {{2, 0}}}}), "there is no such result");
  for (const uint64_t offset : {child.shared_bytes() - kBytes + 1, ~uint64_t{0}}) {
    EXPECT_EQ(Refusal(&child, {{"op", "fetch"}, {"buffers", {{1, offset}}}}),
              "a result does not fit into the shared memory");
  }
  for (const int keep : {-1, 2}) {
    EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 2}, {"keep", keep}}),
              "no such sample to keep");
  }
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 2}, {"fetch", {{2, 0}}}}),
            "there is no such result");
  EXPECT_EQ(Refusal(&child, {{"op", "run"}, {"poison", 256}}), "a poison is no byte");
  for (const json& poisons : {json::array({-1}), json::array({1, 256})}) {
    EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 1}, {"poisons", poisons}}),
              "a poison is no byte");
  }
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 1}, {"poisons", json::array()}}),
            "there is no poison");
  for (const json& odd :
       {json(), json(3), json({{"op", 3}}), json({{"op", "load"}}),
        json({{"op", "run"}, {"seed", "x"}}), json({{"op", "fetch"}}),
        json({{"op", "fetch"}, {"buffers", {1}}}), json({{"op", "run"}, {"guard", 1}})}) {
    EXPECT_THAT(Refusal(&child, odd), HasSubstr("the request cannot be read: ")) << odd;
  }
}

TEST_F(Replay, GarbageIsAnsweredInOneLine) {
  Child child;
  (void)child.Read();
  for (const std::string line :
       {"", "{", "garbage", "\x01\x02", "\xff\xfe", "{\"op\": \"\xff\"}"}) {
    child.Send(line);
    const json answer = child.Read();
    ASSERT_TRUE(answer.is_object()) << line;
    EXPECT_EQ(answer.at("kind"), "request");
    EXPECT_THAT(std::string(answer.at("message")), HasSubstr("the request cannot be read: "));
  }
  EXPECT_EQ(child.Ask({{"op", "describe"}}).at("ok"), true);
}

}  // namespace
}  // namespace kernel_evolve::testing
