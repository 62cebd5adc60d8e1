"""Variants keep each input's domain, shape, strides and dtype."""

from __future__ import annotations

import unittest

import torch

from kernel_evolve_worker.correctness import variants


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Domains(unittest.TestCase):
    def all_variants(self, own: torch.Tensor) -> list[torch.Tensor]:
        domains = variants.domains_of([own])
        return [variants.make_variant(name, [own], domains, generator())[0]
                for name in variants.NAMES]

    def holds(self, own: torch.Tensor, kind: str, test) -> None:
        self.assertEqual(variants.domain_of(own).kind, kind)
        for name, value in zip(variants.NAMES, self.all_variants(own)):
            self.assertEqual((value.shape, value.stride(), value.dtype),
                             (own.shape, own.stride(), own.dtype), name)
            self.assertTrue(bool(test(value)), f"{kind}/{name}")

    def test_real_numbers_take_any_finite_value(self) -> None:
        self.holds(torch.randn(16, 64), "real", lambda v: v.isfinite().all())

    def test_fp16_stays_finite(self) -> None:
        self.holds(torch.randn(16, 64).half(), "real", lambda v: v.isfinite().all())

    def test_unit_interval(self) -> None:
        self.holds(torch.rand(16, 64), "unit", lambda v: ((v >= 0) & (v <= 1)).all())

    def test_positive_and_nonnegative(self) -> None:
        self.holds(torch.rand(16, 64) * 5 + 0.1, "positive", lambda v: (v > 0).all())
        self.holds((torch.randn(16, 64) * 3).clamp(min=-1).abs(), "positive",
                   lambda v: (v >= 0).all())

    def test_probabilities_sum_to_one(self) -> None:
        self.holds(torch.randn(16, 64).softmax(-1), "simplex",
                   lambda v: ((v.sum(-1) - 1).abs() < 1e-3).all() and (v >= 0).all())

    def test_integers_keep_their_range(self) -> None:
        own = torch.randint(3, 50, (16, 64))
        self.holds(own, "integer", lambda v: (v >= own.min()).all() and (v <= own.max()).all())
        self.holds(torch.randint(0, 200, (64,), dtype=torch.uint8), "integer", lambda v: True)

    def test_permutations_stay_permutations_and_offsets_stay(self) -> None:
        own = torch.randperm(100)
        self.holds(own, "shuffle", lambda v: (v.sort().values == torch.arange(100)).all())
        offsets = torch.tensor([0, 3, 9, 20])
        self.holds(offsets, "fixed", lambda v: (v == offsets).all())

    def test_masks_keep_their_values_and_density(self) -> None:
        own = torch.rand(16, 64) < 0.3
        self.holds(own, "shuffle", lambda v: v.sum() == own.sum())
        floats = own.float()
        self.holds(floats, "shuffle", lambda v: v.sum() == floats.sum())
        infinite = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf)
        self.holds(infinite, "fixed", lambda v: (v == infinite).all())

    def test_triangular_and_symmetric_matrices_stay_so(self) -> None:
        own = torch.randn(32, 32).tril()
        self.holds(own, "real", lambda v: (v.triu(1) == 0).all())
        square = torch.randn(32, 32)
        self.holds(square + square.t(), "real", lambda v: (v == v.t()).all())

    def test_complex_and_empty_are_left_alone(self) -> None:
        self.assertEqual(variants.domain_of(torch.zeros(0)).kind, "fixed")
        self.assertEqual(variants.domain_of(torch.zeros(3, dtype=torch.complex64)).kind, "fixed")


class Layout(unittest.TestCase):
    def test_strides_and_expanded_dimensions_are_kept(self) -> None:
        for own in (torch.randn(8, 16).t(), torch.randn(8, 32)[:, ::2],
                    torch.randn(1, 16).expand(8, 16), torch.randn(2, 3, 4).permute(2, 0, 1)):
            domains = variants.domains_of([own])
            made = variants.make_variant("normal", [own], domains, generator())[0]
            self.assertEqual((made.shape, made.stride()), (own.shape, own.stride()))
            self.assertNotEqual(made.untyped_storage().data_ptr(),
                                own.untyped_storage().data_ptr())
            copied = variants.clone_leaf(own)
            self.assertTrue(torch.equal(copied, own))
            self.assertEqual(copied.stride(), own.stride())

    def test_what_is_no_tensor_is_kept_and_nesting_too(self) -> None:
        own = [torch.randn(4), 3, [torch.randn(4), None], {"k": torch.randn(4)}]
        made = variants.make_variant("large", own, variants.domains_of(own), generator())
        self.assertEqual((made[1], made[2][1]), (3, None))
        self.assertFalse(torch.equal(made[2][0], own[2][0]))
        self.assertFalse(torch.equal(made[3]["k"], own[3]["k"]))

    def test_the_generator_decides(self) -> None:
        own = [torch.randn(64)]
        domains = variants.domains_of(own)
        a, b, c = (variants.make_variant("heavy_tail", own, domains, generator(s))[0]
                   for s in (1, 1, 2))
        self.assertTrue(torch.equal(a, b))
        self.assertFalse(torch.equal(a, c))


class Values(unittest.TestCase):
    """Each variant is what its name says, on inputs that may be any real number."""

    def made(self, name: str) -> torch.Tensor:
        own = [torch.randn(64, 128)]
        return variants.make_variant(name, own, variants.domains_of(own), generator())[0]

    def test_sizes(self) -> None:
        self.assertLess(float(self.made("small").abs().max()), 1e-5)
        self.assertGreater(float(self.made("large").abs().mean()), 5e4)
        self.assertAlmostEqual(float(self.made("mean_100").mean()), 100, delta=0.2)
        self.assertAlmostEqual(float(self.made("normal").mean()), 0, delta=0.1)
        heavy = self.made("heavy_tail").abs()
        self.assertGreater(float(heavy.max()), 20 * float(heavy.median()))

    def test_ramp_never_repeats_along_rows_or_columns(self) -> None:
        ramp = self.made("ramp")
        self.assertEqual(torch.unique(ramp[3]).numel(), 128)
        self.assertEqual(torch.unique(ramp[:, 5]).numel(), 64)

    def test_one_hot_has_one_per_row(self) -> None:
        self.assertTrue(bool((self.made("one_hot").sum(1) == 1).all()))


class Weights(unittest.TestCase):
    def test_every_weight_moves_and_buffers_keep_signs_and_zeros(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
        model.register_buffer("mask", torch.ones(4, 4).tril())
        model.register_buffer("table", torch.tensor([-1.0, 0.0, 2.0]))
        torch.nn.init.zeros_(model[0].bias)
        before = {k: v.clone() for k, v in model.state_dict().items()}
        self.assertTrue(variants.perturb_weights(model, generator(), 0.1))
        after = model.state_dict()
        for key in ("0.weight", "0.bias", "1.weight", "1.running_var"):
            self.assertTrue(bool((after[key] != before[key]).all()), key)
        self.assertTrue(bool((after["1.running_var"] > 0).all()))
        self.assertEqual(after["table"].sign().tolist(), [-1, 0, 1])
        for key in ("mask", "1.num_batches_tracked"):
            self.assertTrue(torch.equal(after[key], before[key]), key)

    def test_tied_weights_stay_tied_and_a_model_without_weights_says_so(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False),
                                    torch.nn.Linear(4, 4, bias=False))
        model[1].weight = model[0].weight
        self.assertTrue(variants.perturb_weights(model, generator(), 0.1))
        self.assertTrue(torch.equal(model[0].weight, model[1].weight))
        self.assertFalse(variants.perturb_weights(torch.nn.ReLU(), generator(), 0.1))


if __name__ == "__main__":
    unittest.main()
