// A codec of a loaded type, behind the Codec interface.
#pragma once

#include <memory>

#include "core/plugin/codec.hpp"
#include "core/plugin/registry.hpp"
#include "kernel_evolve/abi.h"

namespace kernel_evolve {

// Calls the type's `create`. `config` is complete and checked; the type's tables live for ever.
Result<std::unique_ptr<Codec>> CreateCodecInstance(const TypeInfo& type, const ke_type& offered,
                                                   const Json& config,
                                                   std::shared_ptr<HostServices> services);

}  // namespace kernel_evolve
