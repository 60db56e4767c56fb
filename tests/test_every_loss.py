"""The battery: what is true of every loss in the registry, with no exceptions."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.losses import LOSSES, build_loss
from gradsnap.registry import options_of
from tests.conftest import gaussian

DIM, CLASSES, ROWS = 5, 3, 12

Maker = Callable[..., nn.Module]


@pytest.fixture(params=list(LOSSES))
def make(request: pytest.FixtureRequest) -> Maker:
    """Every loss in turn, with the sizes it needs."""

    def maker(dim: int = DIM, **options: object) -> nn.Module:
        return build_loss(request.param, dim, CLASSES, **options)

    return maker


@pytest.fixture
def loss(make: Maker) -> nn.Module:
    return make()


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    return gaussian(ROWS, DIM, seed).double(), torch.arange(ROWS) % CLASSES


def several(seed: int = 0) -> Tensor:
    """Some labels for each row, sometimes none, (ROWS, CLASSES)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(ROWS, CLASSES, generator=generator) < 0.4


def gradient(loss: nn.Module, embeddings: Tensor, labels: Tensor) -> Tensor:
    leaf = embeddings.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(leaf, labels), leaf)
    return found


def test_registry_holds_each_once() -> None:
    expected = (
        "triplet contrastive cosine logistic listwise supcon neighbors classification"
    )
    assert list(LOSSES) == expected.split()
    assert len(set(LOSSES.values())) == len(LOSSES)


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(
        gs.InputError, match=r"unknown loss 'tripel'; .*triplet, contra"
    ):
        build_loss("tripel", DIM, CLASSES)
    with pytest.raises(gs.InputError, match="no option gap; it has margin"):
        build_loss("triplet", DIM, CLASSES, gap=1)
    with pytest.raises(gs.InputError, match="no option margin; it has none"):
        build_loss("cosine", DIM, CLASSES, margin=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_scalar_with_a_finite_gradient(loss, labels, dtype) -> None:
    embeddings = batch()[0].to(dtype).requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    assert value.shape == ()
    assert value.dtype == dtype
    assert value > 0
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()
    assert embeddings.grad.abs().sum() > 0


@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_gradient_equals_differences(loss, labels) -> None:
    embeddings = batch()[0].requires_grad_()
    assert torch.autograd.gradcheck(
        lambda y: loss.double()(y, labels), embeddings, fast_mode=True
    )


@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_order_of_the_batch_does_not_matter(loss, labels) -> None:
    embeddings, _ = batch()
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        loss(embeddings[order], labels[order]), loss(embeddings, labels)
    )


# --- items beside the queries -------------------------------------------------------


@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_embeddings_as_items_change_nothing(loss, labels) -> None:
    embeddings, _ = batch()
    queries, items = (embeddings.clone().requires_grad_() for _ in range(2))
    value = loss(queries, labels, items=items)
    torch.testing.assert_close(value, loss(embeddings, labels))
    parts = torch.autograd.grad(value, (queries, items), materialize_grads=True)
    torch.testing.assert_close(sum(parts), gradient(loss, embeddings, labels))


@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_order_of_queries_and_items_does_not_matter(loss, labels) -> None:
    queries, items = batch()[0], batch(seed=1)[0]
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        loss(queries[order], labels[order], items=items[order]),
        loss(queries, labels, items=items),
    )


def test_gradient_by_items_equals_differences(loss) -> None:
    queries, labels = batch()
    items = batch(seed=1)[0].requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: loss.double()(queries, labels, items=z), items, fast_mode=True
    )


def test_items_on_their_queries_give_no_nan(loss) -> None:
    """As of reconstructions without error, and of queries that are all equal."""
    labels = torch.arange(6) % 2
    for rows in (torch.ones(6, DIM), torch.zeros(6, DIM), gaussian(6, DIM)):
        items = rows.clone().requires_grad_()
        value = loss(rows, labels, items=items)
        assert value.isfinite()
        assert torch.autograd.grad(value, items)[0].isfinite().all()


def test_items_of_another_precision_are_taken(loss) -> None:
    queries, labels = batch()
    items = queries.bfloat16()
    exact = loss(queries.float(), labels, items=items.float())
    assert abs(loss(queries.float(), labels, items=items) - exact) < 0.02 * exact


def test_items_that_do_not_fit_are_refused(loss) -> None:
    embeddings, labels = batch()
    for bad in (embeddings[:5], embeddings[:, :2], embeddings.long()):
        with pytest.raises(gs.InputError, match=r"embedding, of shape \(12, 5\), "):
            loss(embeddings, labels, items=bad)


def test_integers_of_any_width_are_labels(loss) -> None:
    embeddings, labels = batch()
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert loss(embeddings, labels.to(dtype)) == loss(embeddings, labels)


@pytest.mark.parametrize("labels", [batch()[1], several()], ids=["one", "several"])
def test_descent_lowers_it(loss, labels) -> None:
    embeddings = batch()[0].float()
    before = loss(embeddings, labels)
    after = loss(embeddings - 0.05 * gradient(loss, embeddings, labels), labels)
    assert after < before


def test_training_brings_rows_of_a_class_together(loss) -> None:
    embeddings, labels = batch()
    embeddings = embeddings.float().requires_grad_()
    optimizer = torch.optim.Adam([embeddings, *loss.parameters()], lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        loss(embeddings, labels).backward()
        optimizer.step()
    apart = torch.cdist(embeddings.detach(), embeddings.detach()).fill_diagonal_(9e9)
    assert torch.equal(labels[apart.argmin(dim=1)], labels)


def test_equal_and_zero_embeddings_give_no_nan(loss) -> None:
    labels = torch.arange(6) % 2
    for embeddings in (torch.ones(6, DIM), torch.zeros(6, DIM)):
        assert loss(embeddings, labels).isfinite()
        found = gradient(loss, embeddings, labels)
        assert found.isfinite().all()
        assert found.abs().max() < 10


def test_huge_and_tiny_embeddings_give_no_nan(loss) -> None:
    embeddings, labels = batch()
    for scale in (1e-12, 1e12):
        scaled = scale * embeddings.float()
        assert loss(scaled, labels).isfinite()
        assert gradient(loss, scaled, labels).isfinite().all()


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_to_compare_give_no_nan(loss, rows: int) -> None:
    embeddings, labels = batch()
    for some in (labels[:rows], several()[:rows]):
        assert loss(embeddings[:rows], some).isfinite()
        assert gradient(loss, embeddings[:rows], some).isfinite().all()


def test_one_class_or_no_label_at_all_give_no_nan(loss) -> None:
    embeddings, labels = batch()
    nothing = torch.zeros(ROWS, CLASSES, dtype=torch.bool)
    for some in (torch.zeros_like(labels), nothing, ~nothing):
        assert loss(embeddings, some).isfinite()
        assert gradient(loss, embeddings, some).isfinite().all()


def test_nan_is_not_hidden(loss) -> None:
    embeddings, labels = batch()
    embeddings[3, 1] = torch.nan
    assert loss(embeddings, labels).isnan()


def test_autocast_and_half_precision_stay_near(loss) -> None:
    embeddings, labels = batch()
    half = embeddings.bfloat16()
    exact = loss(half.float(), labels)
    assert abs(loss(half, labels) - exact) < 0.02 * exact
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert abs(loss(half.float(), labels) - exact) < 0.02 * exact


def test_input_is_not_modified(loss) -> None:
    embeddings, labels = batch()
    before = embeddings.clone(), labels.clone()
    loss(embeddings, labels)
    assert torch.equal(embeddings, before[0])
    assert torch.equal(labels, before[1])


def test_global_random_state_is_untouched(make: Maker) -> None:
    before = torch.get_rng_state()
    make()(*batch())
    assert torch.equal(torch.get_rng_state(), before)


def test_state_dict_and_copies_keep_the_loss(make: Maker) -> None:
    loss, again = make(), make()
    for parameter in loss.parameters():
        parameter.data += 1
    again.load_state_dict(loss.state_dict())
    assert again(*batch()) == loss(*batch()) == copy.deepcopy(loss)(*batch())


def test_repr_shows_every_option(loss) -> None:
    for name in set(options_of(type(loss))) - {"seed"}:
        assert f"{name}=" in repr(loss)


def test_every_margin_or_scale_is_checked(make: Maker, loss) -> None:
    for name in set(options_of(type(loss))) & {"margin", "scale"}:
        for bad in (-1.0, float("nan"), float("inf")):
            with pytest.raises(gs.InputError, match=f"{name} must be .*got {bad}"):
                make(**{name: bad})


def test_labels_that_do_not_fit_are_refused(loss) -> None:
    embeddings, labels = batch()
    for bad, message in (
        (labels[:5], r"each of 12 embeddings, .*\(5,\)"),
        (labels[:, None, None], r"labels of shape \(12, 1, 1\)"),
        (labels.float(), r"an integer, got torch.float32 \(labels.long"),
        (several().float(), r"booleans \(n, labels\), got torch.float32"),
    ):
        with pytest.raises(gs.InputError, match=message):
            loss(embeddings, bad)


def test_embeddings_that_are_none_are_refused(loss) -> None:
    with pytest.raises(gs.InputError, match=r"\(n, dim\), got .*shape \(12, 5, 1\)"):
        loss(batch()[0][:, :, None], batch()[1])
    with pytest.raises(gs.InputError, match=r"got torch\.int64"):
        loss(batch()[0].long(), batch()[1])


def test_snapping_stands_before_it(make: Maker) -> None:
    embeddings = gaussian(64, 8).requires_grad_()
    quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=16)
    snap = gs.GradientSnapping(quantizer.fit(embeddings.detach()), neighbors=20)
    make(dim=8)(snap(embeddings), torch.arange(64) % CLASSES).backward()
    assert snap.last is not None
    assert snap.last.accepted.any()
