#include "cli/command_table.h"

#include <iostream>

#include "base/text/json_fields.h"
#include "cli/python_command.h"

namespace tfos::cli {
namespace {

/// What runs, and has the names that the option's value, or the argument, may be.
std::string RunningThatItNames(const CLI::Option& option) {
  for (const std::string& text : {option.get_name(), option.get_type_name()}) {
    if (text == "NODE") return "nodes";
    if (text == "CLUSTER") return "clusters";
  }
  return "";
}

Json OptionsOf(const CLI::App& app) {
  Json options = Json::array();
  for (const CLI::Option* option : app.get_options()) {
    Json names = Json::array();
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    // Those without a name have a place. Without a group they are not for people.
    if (names.empty() || option->get_group().empty()) continue;
    options.push_back({{"names", std::move(names)},
                       {"help", option->get_description()},
                       {"value", option->get_items_expected_max() > 0},
                       {"choices", Json::array()},
                       {"running", RunningThatItNames(*option)}});
  }
  return options;
}

std::string RunningArgumentOf(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    if (std::string running = RunningThatItNames(*option); !running.empty()) return running;
  }
  return "";
}

Json TableOf(const CLI::App& app) {
  Json commands = Json::array();
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) commands.push_back(TableOf(*command));
  }
  return {{"name", app.get_name()},
          {"help", app.get_description()},
          {"module", PythonModuleOf(app.get_name())},
          {"running", RunningArgumentOf(app)},
          {"options", OptionsOf(app)},
          {"commands", std::move(commands)}};
}

}  // namespace

std::string CommandTable(const CLI::App& app) { return WriteJsonLine(TableOf(app)); }

void AddCommandTableCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("command-table", "Print all subcommands as JSON");
  command->group("");
  command->callback([&app] { std::cout << CommandTable(app) << '\n'; });
}

}  // namespace tfos::cli
