// The frame that sub-commands plug into: one file in core/cli is one sub-command, which registers
// itself; nothing else names it. Parsing is done by main.cpp, the only file with the parser's
// header.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve::cli {

// A positional ("TASK"), a flag ("--json") or an option with a value ("--graph" with value "NAME").
struct Option {
  std::string name;
  std::string value;  // what to call the value in --help; empty for a flag
  std::string help;
  bool required = false;
  bool repeated = false;
};

// What the user typed, by option name. Read-only once parsed.
class Arguments {
 public:
  void Add(const std::string& name, std::string value) {
    values_[name].push_back(std::move(value));
  }
  bool Has(const std::string& name) const { return values_.contains(name); }
  // The last value given, or `fallback`.
  std::string Get(const std::string& name, const std::string& fallback = "") const;
  std::vector<std::string> All(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct Command {
  std::string name;  // "evolve"; "plugins list" is `list` below `plugins`
  std::string summary;
  std::vector<Option> options;
  int (*run)(const Arguments&) = nullptr;  // returns the process's exit code
};

// Every registered command, by name.
std::vector<Command>& Commands();

// `static const Registration kThis({...});` at namespace scope registers a command at start-up.
struct Registration {
  explicit Registration(Command command);
};

// Prints "kernel-evolve: <message>" on stderr and returns the error's exit code.
int Fail(const Error& error);

}  // namespace kernel_evolve::cli
