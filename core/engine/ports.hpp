// What the engine needs of the outside, as narrow as it needs it, so that tests can stand in for
// plugins, for Python and for model endpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/engine/clock.hpp"
#include "core/llm/client.hpp"
#include "core/plugin/registry.hpp"
#include "core/worker/pool.hpp"

namespace kernel_evolve {

// Makes instances of plugin types. Thread-safe.
class InstanceFactory {
 public:
  virtual ~InstanceFactory() = default;
  // Valid as long as the factory; nullptr when there is no such type.
  virtual const TypeInfo* Find(TypeKind kind, const std::string& name) = 0;
  virtual Result<std::unique_ptr<Instance>> Create(const TypeInfo& type, const Json& config,
                                                   std::shared_ptr<HostServices> services) = 0;
  // Of a provider whose interface says "form": "codec".
  virtual Result<std::unique_ptr<Codec>> CreateCodec(const TypeInfo& type, const Json& config,
                                                     std::shared_ptr<HostServices> services) = 0;
};

// Calls Python functions. Thread-safe; exactly one `done` for each call, on any thread, maybe
// before Call returns.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;
  virtual int64_t Call(WorkerCall call, Worker::Done done, Worker::Progress progress) = 0;
  virtual void Cancel(int64_t id) = 0;
};

// Makes model calls over HTTP, for providers that are codecs. The same rules as WorkerPort's.
class ModelPort {
 public:
  virtual ~ModelPort() = default;
  virtual int64_t Call(ModelCall call, ModelClient::Done done, ModelClient::Progress progress) = 0;
  virtual void Cancel(int64_t id) = 0;
};

// Everything that a run meets. Borrows.
struct Outside {
  InstanceFactory& factory;
  WorkerPort& worker;
  ModelPort& models;
  Clock& clock;
};

// The real ones; each borrows what it is given.
class RegistryFactory : public InstanceFactory {
 public:
  explicit RegistryFactory(Registry& registry) : registry_(registry) {}
  const TypeInfo* Find(TypeKind kind, const std::string& name) override {
    return registry_.Find(kind, name);
  }
  Result<std::unique_ptr<Instance>> Create(const TypeInfo& type, const Json& config,
                                           std::shared_ptr<HostServices> services) override {
    return registry_.Create(type, config, std::move(services));
  }
  Result<std::unique_ptr<Codec>> CreateCodec(const TypeInfo& type, const Json& config,
                                             std::shared_ptr<HostServices> services) override {
    return registry_.CreateCodec(type, config, std::move(services));
  }

 private:
  Registry& registry_;
};

class HttpModels : public ModelPort {
 public:
  int64_t Call(ModelCall call, ModelClient::Done done, ModelClient::Progress progress) override {
    return client_.Call(std::move(call), std::move(done), std::move(progress));
  }
  void Cancel(int64_t id) override { client_.Cancel(id); }

 private:
  ModelClient client_;
};

class ProcessWorkers : public WorkerPort {
 public:
  explicit ProcessWorkers(WorkerPool& workers) : workers_(workers) {}
  int64_t Call(WorkerCall call, Worker::Done done, Worker::Progress progress) override {
    return workers_.Call(std::move(call), std::move(done), std::move(progress));
  }
  void Cancel(int64_t id) override { workers_.Cancel(id); }

 private:
  WorkerPool& workers_;
};

}  // namespace kernel_evolve
