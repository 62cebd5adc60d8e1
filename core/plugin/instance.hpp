// An instance of a loaded type, behind the Instance interface.
#pragma once

#include <memory>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/plugin/registry.hpp"
#include "kernel_evolve/abi.h"

namespace kernel_evolve {

// Calls the vtable's `create`. `config` is complete and checked; `vtable` lives for ever. A planned
// failure (any class but internal) keeps the plugin's own sentence.
Result<std::unique_ptr<Instance>> CreateInstance(const TypeInfo& type, const ke_type_vtable& vtable,
                                                 const Json& config,
                                                 std::shared_ptr<HostServices> services);

}  // namespace kernel_evolve
