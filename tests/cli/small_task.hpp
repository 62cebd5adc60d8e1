// The task of the end-to-end tests, small enough to be judged in a second, and a kernel that wins
// it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/file.hpp"

namespace kernel_evolve::testing {

// Three elementwise operators over 256 x 512.
inline constexpr char kTask[] = R"(import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2.0 + 1.0)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
)";

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The one that the scripted model on loopback hands over, too.
inline std::string WinningKernel() {
  const auto text = ReadFile(KERNEL_EVOLVE_SOURCE_DIR "/tests/loopback/scripted/kernel.py");
  EXPECT_TRUE(text.ok()) << text.error().message;
  return text.ok() ? *text : std::string();
}
inline std::string WrongKernel() { return Replaced(WinningKernel(), "+ 1.0", "+ 1.5"); }

}  // namespace kernel_evolve::testing
