// The provider `pangu`: Chat Completions behind a gateway with headers of its own, and the older
// form below /deployments/. See README.md.
#include <kernel_evolve/chat_codec.hpp>

namespace {

using namespace kernel_evolve::sdk;

class Pangu : public ChatCodec {
 public:
  Pangu(Config config, const Host& to) : ChatCodec(std::move(config), to) {
    if (InDeployments() && params().at("deployment").get<std::string>().empty()) {
      throw PluginError("validation", "deployment: the form 'deployments' needs the id of one");
    }
  }

 protected:
  std::string Url() const override {
    if (!InDeployments()) return ChatCodec::Url();
    std::string base = params().at("base_url");
    while (!base.empty() && base.back() == '/') base.pop_back();
    return base + "/deployments/" + params().at("deployment").get<std::string>() +
           "/chat/completions";
  }

  void AddKey(std::map<std::string, std::string>* headers) const override {
    if (!InDeployments()) return ChatCodec::AddKey(headers);
    const std::string key = params().at("api_key");
    if (!key.empty() && key != "none") (*headers)["X-Auth-Token"] = key;
  }

  detail::SplitText Split(const std::string& content) const override {
    const detail::SplitText marked = detail::SplitReasoning(content, "[unused16]", "[unused17]");
    detail::SplitText tagged = ChatCodec::Split(marked.text);
    tagged.reasoning = marked.reasoning + tagged.reasoning;
    tagged.unpaired = tagged.unpaired || marked.unpaired;
    return tagged;
  }

 private:
  bool InDeployments() const { return params().at("form") == "deployments"; }
};

json Params() {
  return ChatParams(
      {{"form",
        {{"type", "string"},
         {"enum", {"openai", "deployments"}},
         {"default", "openai"},
         {"description", "deployments: BASE/deployments/ID/chat/completions, X-Auth-Token."}}},
       {"deployment", {{"type", "string"}, {"default", ""}}}});
}

constexpr char kInterface[] = R"({"form": "codec", "capabilities":
    ["tools", "parallel_tools", "streaming", "reasoning_echo"]})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("provider_pangu", "1.0.0",
                     CodecProvider<Pangu>("pangu", "Pangu models, behind a gateway or deployed",
                                          Params(), kInterface))
