"""References may live on another device: what moves there, and what is said when devices mix.

The device "meta" stands for a GPU here: it has no data, but strides and places.
"""

from __future__ import annotations

import unittest

import torch

from kernel_evolve_worker import task as tasks
from kernel_evolve_worker.correctness import outputs, placement
from kernel_evolve_worker.errors import WorkerError

ELSEWHERE = torch.device("meta")


class Moves(unittest.TestCase):
    def test_strides_stay_and_expanded_dimensions_stay_expanded(self) -> None:
        for tensor in (torch.randn(4, 6).t(), torch.randn(4, 1).expand(4, 6), torch.randn(8)[::2],
                       torch.randn(()), torch.randn(0, 3), torch.randn(1).expand(2, 3)):
            moved = placement.place_leaf(tensor, ELSEWHERE)
            self.assertEqual((moved.device, moved.shape, moved.stride(), moved.dtype),
                             (ELSEWHERE, tensor.shape, tensor.stride(), tensor.dtype))

    def test_what_is_there_already_is_the_same_tensor(self) -> None:
        tensor = torch.randn(4)
        given = [tensor, {"key": (tensor, 3, None)}]
        placed = placement.place(given, torch.device("cpu"))
        self.assertIs(placed[0], tensor)
        self.assertIs(placed[1]["key"][0], tensor)
        self.assertEqual(placed[1]["key"][1:], (3, None))

    def test_plain_attributes_of_modules_move_with_the_weights(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        model[0].table = torch.ones(3)
        model[1].steps = [torch.ones(3), {"mask": torch.ones(3)}, "text"]
        sizes = model[1].sizes = [3, 3]
        placement.place_model(model, ELSEWHERE)
        tensors = [*model.state_dict().values(), model[0].table, model[1].steps[0],
                   model[1].steps[1]["mask"]]
        self.assertEqual({x.device for x in tensors}, {ELSEWHERE})
        self.assertIs(model[1].sizes, sizes)


class Mixing(unittest.TestCase):
    def test_a_result_on_another_device_is_a_difference(self) -> None:
        tree = outputs.describe(torch.empty(4, device=ELSEWHERE), [], {})
        problem = outputs.check_structure(tree, torch.empty(4), [])
        self.assertEqual(problem.code, "output_device")
        self.assertEqual(problem.text,
                         "the output is on the device cpu; the reference's is on meta")
        self.assertIsNone(outputs.check_structure(tree, torch.empty(4, device=ELSEWHERE), []))

    def failure(self, text: str, device: str) -> str:
        def forward(*_: object) -> None:
            raise RuntimeError(text)

        task = tasks.LoadedTask(torch.nn.Module, list, list, "sample", "sample.py")
        with self.assertRaises(WorkerError) as caught:
            tasks.run_forward(task, forward, [], device)
        return str(caught.exception)

    def test_a_forward_that_mixes_devices_is_told_what_to_write(self) -> None:
        hint = "; tensors made in forward need device=x.device"
        for text in (
            "Expected all tensors to be on the same device, but found at least two devices, "
            "cuda:0 and cpu!",
            "indices should be either on cpu or on the same device as the indexed tensor (cuda)",
            "Tensor for argument #2 'mat2' is on CPU, but expected it to be on GPU",
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be "
            "the same",
        ):
            self.assertTrue(self.failure(text, "meta").endswith(hint), text)
            self.assertNotIn(hint, self.failure(text, "cpu"))
        self.assertNotIn(hint, self.failure("shapes don't match", "meta"))


class DeviceFailures(unittest.TestCase):
    def test_a_full_gpu_is_out_of_memory(self) -> None:
        for error in (MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to"),
                      RuntimeError("CUDA error: out of memory"),
                      RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")):
            self.assertTrue(tasks.is_out_of_memory(error), error)
        self.assertFalse(tasks.is_out_of_memory(RuntimeError("CUDA error: misaligned address")))

    def test_failures_of_the_gpu_are_told_from_those_of_the_data(self) -> None:
        lost = "CUDA error: device-side assert triggered"
        self.assertTrue(tasks.is_device_failure(RuntimeError(lost)))
        self.assertTrue(tasks.is_device_failure(WorkerError("validation", f"it raises: {lost}")))
        self.assertFalse(tasks.is_device_failure(WorkerError("validation", "singular matrix")))


if __name__ == "__main__":
    unittest.main()
