// with: the parameters of a node, read by the schema of its type.
#include <algorithm>
#include <system_error>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/graph/draft.hpp"
#include "core/graph/schema.hpp"

namespace kernel_evolve::graph {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{1} << 20U;

// A stretch of a text: literal, or the inside of ${ }.
struct Piece {
  std::string text;
  bool expression = false;
  size_t begin = 0;  // characters into the scalar
};

// Where the expression that begins at `at` ends: its '}' outside quotes and braces of its own.
size_t EndOfExpression(const std::string& text, size_t at) {
  int depth = 0;
  char quote = '\0';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == '\\') ++at;
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && depth-- == 0) {
      return at;
    }
  }
  return std::string::npos;
}

class ParameterReader {
 public:
  ParameterReader(const NodeDraft& node, expr::TypeEnv names, Draft* draft)
      : node_(node), names_(std::move(names)), draft_(draft), reporter_(draft->reporter) {}

  WithTemplate Run() {
    const Json& schema = node_.type->params_schema;
    static const Tree kNothing;
    const Tree& tree = node_.with != nullptr ? *node_.with : kNothing;
    if (!Fields::ReadOpen(tree, "'with'", reporter_).ok()) return WithTemplate();
    return ReadObject(tree, schema, node_.key->range, "");
  }

 private:
  WithTemplate Read(const Tree& tree, const Json& schema, const std::string& path) {
    if (tree.broken) return WithTemplate(Json());
    const std::string special = schema.Text("x-ke");
    if (special == "model") return ReadModel(tree, path);
    if (special == "file") return ReadFile(tree, path);
    const std::string type = SchemaType(schema);
    if (tree.is(Tree::Kind::kScalar)) return ReadScalar(tree, schema, path);
    const bool open = type.empty();
    if (tree.is(Tree::Kind::kMapping) && (open || type == "object")) {
      return ReadObject(tree, schema, tree.range, path);
    }
    if (tree.is(Tree::Kind::kSequence) && (open || type == "array")) {
      WithTemplate::Items items;
      for (size_t i = 0; i < tree.items.size(); ++i) {
        items.push_back(Read(tree.items[i], schema["items"], path + "[" + std::to_string(i) + "]"));
      }
      return WithTemplate(std::move(items));
    }
    return Checked(tree, schema, ReadUntyped(tree), path);
  }

  // `range`: where a missing member is reported.
  WithTemplate ReadObject(const Tree& tree, const Json& schema, const SourceRange& range,
                          const std::string& path) {
    const Json& properties = schema["properties"];
    WithTemplate::Members members;
    std::set<std::string> given;
    for (const Member& member : tree.members) {
      const std::string& name = member.key.text;
      if (name.starts_with("x-") && !properties.contains(name)) continue;
      if (!properties.contains(name) && !SchemaIsOpen(schema)) {
        const std::vector<std::string> known =
            properties.is_object() ? KeysOf(properties.object()) : std::vector<std::string>{};
        reporter_->At(member.key, "KE1131", Owner(path) + " has no parameter " + Quoted(name),
                      Suggest(name, known));
        continue;
      }
      given.insert(name);
      members.emplace_back(name, Read(member.value, properties[name], Join2(path, name)));
    }
    for (const std::string& name : SchemaRequired(schema)) {
      if (given.count(name) > 0) continue;
      reporter_->At(range, "KE1132", Owner(path) + " needs the parameter " + Quoted(name));
    }
    if (properties.is_object()) {
      for (const auto& [name, property] : properties.object()) {
        if (given.count(name) > 0 || !property.contains("default")) continue;
        if (property.contains("x-ke")) continue;  // the plugin's own business
        members.emplace_back(name, WithTemplate(property["default"]));
      }
    }
    return WithTemplate(std::move(members));
  }

  std::string Owner(const std::string& path) const {
    return path.empty() ? Quoted(node_.type->name) : "parameter " + Quoted(path);
  }
  static std::string Join2(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  WithTemplate ReadScalar(const Tree& tree, const Json& schema, const std::string& path) {
    const std::optional<std::vector<Piece>> pieces = Cut(tree);
    if (!pieces) return WithTemplate(Json());
    const bool literal = std::none_of(pieces->begin(), pieces->end(),
                                      [](const Piece& piece) { return piece.expression; });
    if (!literal) return ReadTemplate(tree, *pieces, schema, path);
    const std::string text = pieces->empty() ? "" : pieces->front().text;
    const std::string type = SchemaType(schema);
    Json value(text);
    const bool plain = type == "integer" || type == "number" || type == "boolean" || type.empty();
    if (plain && !tree.quoted()) {
      const std::optional<Json> read = ReadPlainScalar(text);
      if (read) value = *read;
    }
    if (type == "number" && value.is_integer()) value = Json(value.number());
    return Checked(tree, schema, std::move(value), path);
  }

  WithTemplate Checked(const Tree& tree, const Json& schema, Json value, const std::string& path) {
    const Status fits = CheckSchema(schema, value, "parameter " + Quoted(path));
    if (!fits.ok()) reporter_->At(tree, "KE1133", fits.error().message);
    return WithTemplate(std::move(value));
  }

  // Cuts a text at ${ }; `$${` stands for a literal `${`. Nothing after an error.
  std::optional<std::vector<Piece>> Cut(const Tree& tree) {
    std::vector<Piece> pieces;
    const std::string& text = tree.text;
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) pieces.push_back({literal, false, 0});
      literal.clear();
    };
    for (size_t i = 0; i < text.size();) {
      if (text.compare(i, 3, "$${") == 0) {
        literal += "${";
        i += 3;
      } else if (text.compare(i, 2, "${") == 0) {
        const size_t end = EndOfExpression(text, i + 2);
        if (end == std::string::npos) {
          const std::vector<size_t> offsets = AlignScalar(reporter_->source(), tree);
          const size_t at = offsets[CountCodePoints(std::string_view(text).substr(0, i))];
          reporter_->At(reporter_->source().Range(at, at + 2), "KE1211",
                        "the '${' that opens here is never closed",
                        "close it with '}', or write '$${' for the text '${'");
          return std::nullopt;
        }
        flush();
        const size_t begin = CountCodePoints(std::string_view(text).substr(0, i + 2));
        pieces.push_back({text.substr(i + 2, end - i - 2), true, begin});
        i = end + 1;
      } else {
        literal += text[i++];
      }
    }
    flush();
    return pieces;
  }

  WithTemplate ReadTemplate(const Tree& tree, const std::vector<Piece>& pieces, const Json& schema,
                            const std::string& path) {
    WithTemplate::Text text;
    text.whole = pieces.size() == 1;
    for (const Piece& piece : pieces) {
      if (!piece.expression) {
        text.parts.emplace_back(piece.text);
        continue;
      }
      std::optional<expr::Program> program =
          CompileAt(tree, piece.begin, piece.text, names_, expr::Want::kAnything, reporter_);
      if (!program) return WithTemplate(Json());
      text.parts.emplace_back(std::move(*program));
    }
    const expr::Type type =
        text.whole ? std::get<expr::Program>(text.parts[0]).type() : expr::StringType();
    if (!TypeFitsSchema(type, schema)) {
      const bool to_text = SchemaType(schema) == "string";
      const bool to_number = SchemaType(schema) == "number" || SchemaType(schema) == "integer";
      reporter_->At(tree, "KE1133",
                    "parameter " + Quoted(path) + " must be of type " + SchemaType(schema) +
                        ", this is of type " + expr::TypeName(type),
                    to_text                   ? "convert with string()"
                    : to_number && text.whole ? "convert with int() or double()"
                                              : "");
    }
    return WithTemplate(std::move(text));
  }

  std::optional<std::string> ReadLiteral(const Tree& tree, const std::string& what) {
    std::optional<std::string> text = ReadText(tree, what, reporter_);
    if (text && text->find("${") != std::string::npos) {
      reporter_->At(tree, "KE1133", what + " cannot be computed", "write it out");
      return std::nullopt;
    }
    return text;
  }

  WithTemplate ReadModel(const Tree& tree, const std::string& path) {
    const std::optional<std::string> name =
        ReadLiteral(tree, "parameter " + Quoted(path) + ", a model,");
    if (!name) return WithTemplate(Json());
    const auto& models = draft_->graph.models;
    if (models.count(*name) == 0) {
      reporter_->At(tree, "KE1115", "no model is called " + Quoted(*name),
                    models.empty() ? "declare it: models: {" + *name + ": {}}"
                                   : Suggest(*name, KeysOf(models)));
    }
    return WithTemplate(Json(*name));
  }

  WithTemplate ReadFile(const Tree& tree, const std::string& path) {
    const std::optional<std::string> name =
        ReadLiteral(tree, "parameter " + Quoted(path) + ", a file,");
    if (!name) return WithTemplate(Json());
    std::error_code failed;
    const fs::path root = fs::weakly_canonical(draft_->root, failed);
    const fs::path full = fs::weakly_canonical(draft_->folder / *name, failed);
    const fs::path inside = full.lexically_relative(root);
    if (fs::path(*name).is_absolute() || inside.empty() || *inside.begin() == "..") {
      reporter_->At(tree, "KE1134", "the file " + Quoted(*name) + " is outside the graph's folder",
                    "name a file beside the graph or below it");
      return WithTemplate(Json());
    }
    Result<std::string> text = kernel_evolve::ReadFile(full, kMaxFileBytes);
    if (!text.ok() || !IsUtf8Text(*text)) {
      std::error_code ignored;
      const bool missing = !fs::exists(full, ignored);
      reporter_->At(tree, "KE1135",
                    missing     ? "there is no file " + Quoted(*name)
                    : text.ok() ? "the file " + Quoted(*name) + " is not UTF-8 text"
                                : "the file " + Quoted(*name) +
                                      " cannot be used: it must be a text of at most 1 MiB",
                    missing ? Suggest(fs::path(*name).filename().string(), Siblings(full)) : "");
      return WithTemplate(Json());
    }
    draft_->files.emplace_back(*name, *text);
    return WithTemplate(Json::Obj({{"path", Json(*name)}, {"text", Json(std::move(*text))}}));
  }

  // Names of the files beside `missing`, for a suggestion.
  static std::vector<std::string> Siblings(const fs::path& missing) {
    std::vector<std::string> names;
    std::error_code failed;
    for (fs::directory_iterator it(missing.parent_path(), failed), end;
         !failed && it != end && names.size() < 200; it.increment(failed)) {
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const NodeDraft& node_;
  expr::TypeEnv names_;
  Draft* draft_;
  Reporter* reporter_;
};

}  // namespace

void ReadParameters(const Presence& presence, Draft* draft) {
  const expr::TypeEnv common = CommonNames(*draft);
  for (size_t i = 0; i < draft->nodes.size(); ++i) {
    NodeDraft& node = draft->nodes[i];
    if (node.type == nullptr) continue;
    expr::TypeEnv names = NamesFor(*draft, common, presence.before[i], nullptr);
    node.node.with = ParameterReader(node, std::move(names), draft).Run();
  }
}

}  // namespace kernel_evolve::graph
