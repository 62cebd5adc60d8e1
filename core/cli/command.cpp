#include "core/cli/command.hpp"

#include <cstdio>

namespace kernel_evolve::cli {

std::string Arguments::Get(const std::string& name, const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second.back();
}

std::vector<std::string> Arguments::All(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::vector<Command>& Commands() {
  static std::vector<Command> commands;
  return commands;
}

Registration::Registration(Command command) { Commands().push_back(std::move(command)); }

int Fail(const Error& error) {
  std::fprintf(stderr, "kernel-evolve: %s\n", error.message.c_str());
  return error.exit_code;
}

}  // namespace kernel_evolve::cli
