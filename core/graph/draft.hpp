// A graph while it is being read, and the passes that make it one, in the order they run.
// Internal to graph/. Every pass reports what it finds and goes on.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/expr/expr.hpp"
#include "core/graph/fields.hpp"
#include "core/graph/graph.hpp"
#include "core/graph/loader.hpp"
#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {

struct EdgeDraft {
  Edge edge;
  const Tree* tree = nullptr;
  const Tree* when = nullptr;
  bool resolved = false;  // `edge.to` is a node or the end
  bool odd = false;       // has unknown keys: its condition may hide behind one
};

struct NodeDraft {
  Node node;
  const Tree* key = nullptr;
  const NodeTypeInfo* type = nullptr;  // nothing: reported
  const Tree* with = nullptr;
  const Tree* in = nullptr;
  const Tree* out = nullptr;
  const Tree* next = nullptr;
  std::vector<EdgeDraft> edges;
  bool edges_known = false;  // every way out was understood
};

struct Draft {
  Graph graph;
  const NodeTypeCatalog* catalog = nullptr;
  const PluginVersions* plugins = nullptr;
  std::filesystem::path root;    // files must stay inside
  std::filesystem::path folder;  // of the document: relative paths start here
  Reporter* reporter = nullptr;
  std::vector<NodeDraft> nodes;
  bool types_known = true;  // every node's type was found
  bool start_known = false;
  std::vector<std::pair<std::string, std::string>> files;  // named by the graph: path, text

  int IndexOf(const std::string& node) const;  // -1 when there is none
};

// Channels that are certainly written when a node starts, and when it has finished.
struct Presence {
  std::vector<std::set<std::string>> before;
  std::vector<std::set<std::string>> after;
};

// The members of a mapping of named things; at most 1000, the rest is refused.
std::vector<const Member*> ReadEntries(const Tree& tree, const std::string& what,
                                       Reporter* reporter);  // declarations.cpp

void ReadDeclarations(const Fields& top, Draft* draft);          // declarations.cpp
void ReadBudget(const Fields& top, Draft* draft);                // declarations.cpp
void ReadRequires(const Fields& top, Draft* draft);              // requires.cpp
void ReadNodes(const Fields& top, Draft* draft);                 // nodes.cpp
void BindPorts(Draft* draft);                                    // ports.cpp
void ReadEdges(Draft* draft);                                    // edges.cpp
Presence CheckRoutes(Draft* draft);                              // routes.cpp
void CompileConditions(const Presence& presence, Draft* draft);  // edges.cpp
void ReadParameters(const Presence& presence, Draft* draft);     // parameters.cpp

// The names an expression may use anywhere in this graph, and the whole of them at one place.
// `written`: channels that are there; `result_of`: the node whose edges it stands on, nothing for
// `with`.
expr::TypeEnv CommonNames(const Draft& draft);  // names.cpp
expr::TypeEnv NamesFor(const Draft& draft, const expr::TypeEnv& common,
                       const std::set<std::string>& written,
                       const NodeDraft* result_of);  // names.cpp

// Compiles the part of a scalar that begins at character `begin`; reports problems in place.
std::optional<expr::Program> CompileAt(const Tree& scalar, size_t begin, std::string_view text,
                                       const expr::TypeEnv& names, expr::Want want,
                                       Reporter* reporter);  // names.cpp

}  // namespace kernel_evolve::graph
