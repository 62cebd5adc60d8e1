// Comes back to where a run was, from its journal alone: nodes are stepped again, everything from
// outside is answered from the journal, and nothing is spent.
#pragma once

#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/journal.hpp"
#include "core/engine/reducer.hpp"

namespace kernel_evolve {

// `spec` is the one of the run; its models and evaluator are checked but never asked, and neither
// the worker nor the run folder is touched. Returns the state after the last recorded result: final
// when the run had ended, else waiting for what was in flight.
// Class validation when a node asks for something else than it did then, or asks no more: the
// graph or a plugin has changed, or a node is not deterministic.
Result<State> ReplayJournal(const RunSpec& spec, InstanceFactory& factory, Clock& clock,
                            const std::vector<Recorded>& recorded);

}  // namespace kernel_evolve
