#include <set>

#include "core/plugin/manifest.hpp"

namespace kernel_evolve {
namespace {

Error At(const std::string& where, const std::string& what) {
  return Failed(ErrorClass::kValidation, where + ": " + what);
}

Status OnlyKeys(const Json& object, const std::string& where, const std::set<std::string>& known) {
  if (!object.is_object()) {
    return At(where, std::string("expected object, got ") + object.type_name());
  }
  for (const auto& [key, value] : object.object()) {
    if (known.count(key) == 0) return At(where + "." + key, "unknown key");
  }
  return {};
}

Status CheckFlag(const Json& object, const std::string& where, const std::string& key) {
  if (!object.contains(key) || object[key].is_bool()) return {};
  return At(where + "." + key, "expected true or false");
}

// An array of distinct, non-empty strings; absent is fine.
Status CheckNames(const Json& names, const std::string& where) {
  if (names.is_null()) return {};
  if (!names.is_array()) return At(where, "expected an array of names");
  std::set<std::string> seen;
  for (const Json& name : names.array()) {
    if (!name.is_string() || name.string().empty()) return At(where, "expected an array of names");
    if (!seen.insert(name.string()).second) return At(where, "'" + name.string() + "' comes twice");
  }
  return {};
}

Status CheckPorts(const Json& ports, const std::string& where, bool inputs) {
  if (ports.is_null()) return {};
  if (!ports.is_array()) return At(where, "expected an array of ports");
  const std::set<std::string> known = inputs ? std::set<std::string>{"name", "type", "required"}
                                             : std::set<std::string>{"name", "type"};
  std::set<std::string> seen;
  for (size_t i = 0; i < ports.array().size(); ++i) {
    const Json& port = ports.array()[i];
    const std::string place = where + "[" + std::to_string(i) + "]";
    if (Status keys = OnlyKeys(port, place, known); !keys.ok()) return keys;
    if (port.Text("name").empty() || port.Text("type").empty()) {
      return At(place, "a port has a name and a type");
    }
    if (Status flag = CheckFlag(port, place, "required"); !flag.ok()) return flag;
    if (!seen.insert(port.Text("name")).second) {
      return At(place, "the port '" + port.Text("name") + "' comes twice");
    }
  }
  return {};
}

Status CheckNode(const Json& interface) {
  const Json& ports = interface["ports"];
  if (!ports.is_null()) {
    if (Status keys = OnlyKeys(ports, "interface.ports", {"in", "out"}); !keys.ok()) return keys;
    Status in = CheckPorts(ports["in"], "interface.ports.in", true);
    if (!in.ok()) return in;
    Status out = CheckPorts(ports["out"], "interface.ports.out", false);
    if (!out.ok()) return out;
  }
  const Json& result = interface["result"];
  if (!result.is_null() && !result.is_object()) {
    return At("interface.result", "expected an object of field: type");
  }
  if (result.is_object()) {
    for (const auto& [field, type] : result.object()) {
      if (!type.is_string() || type.string().empty()) {
        return At("interface.result." + field, "expected the name of a type");
      }
    }
  }
  return CheckNames(interface["labels"], "interface.labels");
}

Status CheckProvider(const Json& interface) {
  const Json& form = interface["form"];
  if (!form.is_null() && form != Json("resumable") && form != Json("codec")) {
    return At("interface.form", "this host knows the forms \"resumable\" and \"codec\"");
  }
  return CheckNames(interface["capabilities"], "interface.capabilities");
}

Status CheckEvaluator(const Json& interface) {
  static const std::set<std::string> kClasses = {"modelled", "process", "tape"};
  if (kClasses.count(interface.Text("class")) == 0) {
    return At("interface.class", "expected \"modelled\", \"process\" or \"tape\"");
  }
  return CheckFlag(interface, "interface", "tries_tasks");
}

}  // namespace

Status CheckInterface(TypeKind kind, const Json& interface) {
  static const std::set<std::string> kKnown[] = {{"blocking", "ports", "result", "labels"},
                                                 {"blocking", "form", "capabilities"},
                                                 {"blocking", "class", "tries_tasks"}};
  Status keys = OnlyKeys(interface, "interface", kKnown[static_cast<size_t>(kind)]);
  if (!keys.ok()) return keys;
  if (Status flag = CheckFlag(interface, "interface", "blocking"); !flag.ok()) return flag;
  if (kind == TypeKind::kNode) return CheckNode(interface);
  return kind == TypeKind::kProvider ? CheckProvider(interface) : CheckEvaluator(interface);
}

}  // namespace kernel_evolve
