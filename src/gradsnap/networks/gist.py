"""GIST: the spatial envelope of an image, a descriptor with nothing to learn."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.networks.preprocessing import check_images

PREFILTER_MARGIN = 5
PREFILTER_CYCLES = 4.0
"""What the prefilter takes away: less than so many cycles an image."""
FILTER_MARGIN = 32
BLOCK_ENTRIES = 1 << 22
"""Complex filter responses held at once."""


class Gist(nn.Module):
    """GIST (Oliva & Torralba 2001): energies of oriented filters on a coarse grid.

    The image is made grey, whitened by a prefilter with local contrast normalization,
    filtered in the Fourier domain by transfer functions
    ``exp(−3.5 (f / f₀ − 1)² − 2π b θ²)`` at each scale and orientation, and the
    magnitudes are averaged in each cell of the grid. The settings are the authors'.
    There are no weights; the filters are buffers, so ``.to(device)`` moves them.

    Args:
        side: pixels of a side; images of another size are resized.
        orientations: at each scale, from the finest on.
        grid: cells along a side.

    Example:
        >>> Gist()(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 512])
    """

    filters: Tensor
    low_pass: Tensor

    def __init__(
        self,
        side: int = 32,
        orientations: tuple[int, ...] = (8, 8, 8, 8),
        grid: int = 4,
    ) -> None:
        super().__init__()
        if side < grid or grid < 1 or not orientations or min(orientations) < 1:
            raise InputError(
                f"expected at least one orientation a scale and a side of at least "
                f"the grid; got side={side}, orientations={orientations}, grid={grid}"
            )
        self.side, self.orientations, self.grid = side, orientations, grid
        self.dim = sum(orientations) * grid**2
        padded = side + 2 * PREFILTER_MARGIN
        padded += padded % 2
        self.register_buffer("low_pass", _low_pass(padded), persistent=False)
        self.register_buffer(
            "filters",
            _transfer_functions(orientations, side + 2 * FILTER_MARGIN),
            persistent=False,
        )

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Descriptors (n, dim) of images (n, channels, height, width).

        Args:
            images: bytes from 0 to 255, or floats from 0 to 1.
        """
        check_images(images, 1, "Gist")
        if not len(images):
            return torch.empty(0, self.dim, device=images.device)
        step = max(1, BLOCK_ENTRIES // self.filters.numel())
        blocks = images.split(step)
        return torch.cat([self._describe(self._prefilter(b)) for b in blocks])

    def _prefilter(self, images: Tensor) -> Tensor:
        """Grey images (n, side, side) of like local contrast."""
        grey = _grey(images, self.side).add_(1).log_()
        size = len(self.low_pass)
        spare = size - self.side - 2 * PREFILTER_MARGIN
        padded = _mirror(grey, PREFILTER_MARGIN, spare)  # (n, size, size)
        high = padded - self._smooth(padded)
        contrast = self._smooth(high.square()).abs().sqrt()
        flat = high / (0.2 + contrast)
        inner = slice(PREFILTER_MARGIN, PREFILTER_MARGIN + self.side)
        return flat[:, inner, inner]

    def _smooth(self, images: Tensor) -> Tensor:
        smooth: Tensor = torch.fft.ifft2(torch.fft.fft2(images) * self.low_pass).real
        return smooth

    def _describe(self, images: Tensor) -> Tensor:
        """Mean magnitudes in each cell, (n, filters · grid²), of (n, side, side)."""
        spectra = torch.fft.fft2(_mirror(images, FILTER_MARGIN))[:, None]
        inner = slice(FILTER_MARGIN, FILTER_MARGIN + self.side)
        found = torch.fft.ifft2(spectra * self.filters)[..., inner, inner].abs()
        return functional.adaptive_avg_pool2d(found, self.grid).flatten(1)


def _grey(images: Tensor, side: int) -> Tensor:
    """Grey float images (n, side, side), each stretched to 0 to 255."""
    grey = images.float().mean(dim=1, keepdim=True)
    if grey.shape[2:] != (side, side):
        grey = functional.interpolate(
            grey, (side, side), mode="bilinear", antialias=True
        )
    low, high = grey.amin(dim=(2, 3), keepdim=True), grey.amax(dim=(2, 3), keepdim=True)
    return ((grey - low) * (255 / (high - low).clamp_min(1e-8))).squeeze(1)


def _mirror(images: Tensor, margin: int, spare: int = 0) -> Tensor:
    """Images (n, s, s) continued by reflection that repeats the edge."""
    place = torch.arange(
        -margin, images.shape[1] + margin + spare, device=images.device
    )
    period = place.remainder(2 * images.shape[1])
    at = torch.minimum(period, 2 * images.shape[1] - 1 - period)
    return images[:, at][:, :, at]


def _frequencies(size: int) -> tuple[Tensor, Tensor]:
    """Cycles an image in the order of ``fft2``, along columns and rows, (s, s) each."""
    cycles = torch.fft.fftfreq(size, 1 / size, dtype=torch.float64)
    return cycles[None, :].expand(size, size), cycles[:, None].expand(size, size)


def _low_pass(size: int) -> Tensor:
    """A Gaussian that is one half at the cut-off frequency, (size, size)."""
    across, down = _frequencies(size)
    width = PREFILTER_CYCLES**2 / math.log(2)
    return (-(across.square() + down.square()) / width).exp().float()


def _transfer_functions(orientations: tuple[int, ...], size: int) -> Tensor:
    """One filter a scale and orientation in the Fourier domain, (f, size, size)."""
    across, down = _frequencies(size)
    radius, angle = torch.hypot(across, down) / size, torch.atan2(down, across)
    made = []
    for scale, count in enumerate(orientations):
        centre, width = 0.3 / 1.85**scale, 16 * count**2 / 32**2
        ring = -3.5 * (radius / centre - 1).square()
        for turn in range(count):
            off = angle + math.pi * turn / count
            off = (off + math.pi).remainder(2 * math.pi) - math.pi
            made.append((ring - 2 * math.pi * width * off.square()).exp())
    return torch.stack(made).float()
