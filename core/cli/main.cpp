// Parses the command line and hands over to a sub-command. The only file with CLI11's header.
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/text.hpp"
#include "core/cli/command.hpp"

namespace kernel_evolve::cli {
namespace {

constexpr const char* kVersion = KERNEL_EVOLVE_VERSION;

// One parsed sub-command: CLI11 writes into `values` and `flags`, both of which must not move.
struct Bound {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> flags;
};

CLI::App* Descend(CLI::App* parent, const std::string& name) {
  for (CLI::App* child : parent->get_subcommands({})) {
    if (child->get_name() == name) return child;
  }
  CLI::App* child = parent->add_subcommand(name);
  child->require_subcommand(0, 1);
  return child;
}

void Bind(CLI::App* root, const Command& command, Bound* bound) {
  CLI::App* app = root;
  for (const std::string& part : Split(command.name, ' ')) app = Descend(app, part);
  app->description(command.summary);
  bound->command = &command;
  bound->app = app;
  for (const Option& option : command.options) {
    const bool positional = option.name.rfind("--", 0) != 0;
    if (!positional && option.value.empty()) {
      app->add_flag(option.name, bound->flags[option.name], option.help);
      continue;
    }
    std::vector<std::string>& target = bound->values[option.name];
    CLI::Option* added = app->add_option(option.name, target, option.help);
    if (!positional) added->type_name(option.value);
    if (positional) added->type_name("");
    if (option.required) added->required();
    added->type_size(1);
    if (option.repeated) {
      added->expected(1, CLI::detail::expected_max_vector_size)->take_all();
      added->allow_extra_args(positional);
    } else {
      added->expected(1)->allow_extra_args(false);
      // A flag given twice counts once; a positional takes one word and leaves the next to others.
      if (!positional) added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

// The deepest sub-command that the user named, for the sentence and its --help.
CLI::App* Deepest(CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string FullName(const CLI::App* app) {
  std::string name = app->get_name();
  for (app = app->get_parent(); app != nullptr; app = app->get_parent()) {
    name = app->get_name() + " " + name;
  }
  return name;
}

std::string Suggestion(const CLI::App* app, const std::string& unexpected) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const CLI::App* child : app->get_subcommands({})) known.push_back(child->get_name());
  const auto nearest = Nearest(unexpected.substr(0, unexpected.find('=')), known);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

// "kernel-evolve plugins" of "kernel-evolve plugins list": what CLI11 puts before the name itself.
std::string ParentName(const CLI::App* app) {
  return app->get_parent() == nullptr ? "" : FullName(app->get_parent());
}

int Complain(CLI::App* root, const CLI::ParseError& error) {
  CLI::App* app = Deepest(root);
  std::string message = error.what();
  const std::vector<std::string> left = root->remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    message = "unknown argument '" + left.front() + "'" + Suggestion(app, left.front());
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "%s: %s (see '%s --help')\n", FullName(app).c_str(), message.c_str(),
               FullName(app).c_str());
  return kExitBadInput;
}

int Main(int argc, char** argv) {
  CLI::App root("Evolves a PyTorch Model into faster Triton kernels, under a verdict that holds.",
                "kernel-evolve");
  root.set_version_flag("--version", std::string("kernel-evolve ") + kVersion);
  root.require_subcommand(0, 1);
  root.set_help_all_flag("--help-all", "Help of every sub-command");

  std::vector<Command>& commands = Commands();
  std::sort(commands.begin(), commands.end(),
            [](const Command& a, const Command& b) { return a.name < b.name; });
  std::vector<std::unique_ptr<Bound>> bounds;
  for (const Command& command : commands) {
    bounds.push_back(std::make_unique<Bound>());
    Bind(&root, command, bounds.back().get());
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    std::printf("kernel-evolve %s\n", kVersion);
    return kExitOk;
  } catch (const CLI::CallForAllHelp&) {
    std::fputs(root.help("", CLI::AppFormatMode::All).c_str(), stdout);
    return kExitOk;
  } catch (const CLI::CallForHelp&) {
    std::fputs(Deepest(&root)->help(ParentName(Deepest(&root))).c_str(), stdout);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return Complain(&root, error);
  }
  const CLI::App* chosen = Deepest(&root);
  for (const auto& bound : bounds) {
    if (bound->app != chosen || bound->command == nullptr) continue;
    Arguments arguments;
    for (const auto& [name, values] : bound->values) {
      for (const std::string& value : values) arguments.Add(name, value);
    }
    for (const auto& [name, set] : bound->flags) {
      if (set) arguments.Add(name, "true");
    }
    return bound->command->run(arguments);
  }
  std::fputs(chosen->help(ParentName(chosen)).c_str(),
             chosen == &root && argc < 2 ? stdout : stderr);
  return argc < 2 ? kExitOk : kExitBadInput;
}

}  // namespace
}  // namespace kernel_evolve::cli

int main(int argc, char** argv) {
#ifndef KERNEL_EVOLVE_SANITIZED  // the leak checker traces its own process
  // Keys may stand in our environment: no other process of this user is to read it in /proc.
  ::prctl(PR_SET_DUMPABLE, 0);
#endif
  try {
    return kernel_evolve::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel-evolve: internal error: %s; please report it\n", error.what());
    return kernel_evolve::kExitFailed;
  }
}
