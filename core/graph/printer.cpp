#include "core/graph/printer.hpp"

#include <map>

namespace kernel_evolve::graph {
namespace {

// A node's name may be a word of the drawing language ("end", "graph"): ids are our own.
std::map<std::string, std::string> IdsOf(const Graph& graph) {
  std::map<std::string, std::string> ids;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ids[graph.nodes[i].name] = "n" + std::to_string(i);
  }
  ids[kEnd] = "stop";
  return ids;
}

std::string LabelOf(const Edge& edge) {
  std::string label = edge.text;
  if (edge.max_visits) {
    label += (label.empty() ? "" : " ") + ("(at most " + std::to_string(*edge.max_visits) + ")");
  }
  return label;
}

// Mermaid has its own entities; inside quotes these are the characters that would end a label.
std::string MermaidText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "#quot;";
        break;
      case '#':
        out += "#35;";
        break;
      case '<':
        out += "#lt;";
        break;
      case '>':
        out += "#gt;";
        break;
      case '&':
        out += "#amp;";
        break;
      case '\n':
        out += ' ';
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string DotText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += ' ';
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string ToMermaid(const Graph& graph) {
  const auto ids = IdsOf(graph);
  std::string out = "flowchart TD\n  begin([start])\n";
  for (const Node& node : graph.nodes) {
    out += "  " + ids.at(node.name) + "[\"" + MermaidText(node.name) + "<br/>" +
           MermaidText(node.uses) + "\"]\n";
  }
  out += "  stop([end])\n  begin --> " + ids.at(graph.start) + "\n";
  for (const Node& node : graph.nodes) {
    for (const Edge& edge : node.next) {
      const std::string label = MermaidText(LabelOf(edge));
      out += "  " + ids.at(node.name) + (label.empty() ? " --> " : " -->|\"" + label + "\"| ") +
             ids.at(edge.to) + "\n";
    }
  }
  return out;
}

std::string ToDot(const Graph& graph) {
  std::string out = "digraph " + DotText(graph.name) + " {\n";
  out += "  node [shape=box, style=rounded];\n";
  out += "  \"start\" [shape=oval];\n  \"end\" [shape=oval];\n";
  const auto id = [](const std::string& name) {
    return name == kEnd ? std::string("\"end\"") : DotText("node " + name);
  };
  for (const Node& node : graph.nodes) {
    std::string label = DotText(node.name);
    label.pop_back();
    label += "\\n" + DotText(node.uses).substr(1);
    out += "  " + id(node.name) + " [label=" + label + "];\n";
  }
  out += "  \"start\" -> " + id(graph.start) + ";\n";
  for (const Node& node : graph.nodes) {
    for (const Edge& edge : node.next) {
      const std::string label = LabelOf(edge);
      out += "  " + id(node.name) + " -> " + id(edge.to) +
             (label.empty() ? "" : " [label=" + DotText(label) + "]") + ";\n";
    }
  }
  return out + "}\n";
}

Json DiagnosticsToJson(const std::vector<Diagnostic>& diagnostics) {
  Json list = Json(Json::Array{});
  for (const Diagnostic& diagnostic : diagnostics) {
    Json one = Json::Obj({{"code", diagnostic.code},
                          {"severity", "error"},
                          {"file", diagnostic.file},
                          {"line", diagnostic.range.begin.line},
                          {"column", diagnostic.range.begin.column},
                          {"length", diagnostic.range.length},
                          {"message", diagnostic.message}});
    if (!diagnostic.hint.empty()) one["hint"] = Json(diagnostic.hint);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace kernel_evolve::graph
