"""3x3 convolution, padding 1, stride 1: out[n, f, y, x] = bias[f] + sum over c, dy, dx of images * weights."""

import numpy as np


def inputs(rng, *, batch, channels, filters, height, width):
    return {
        "images": rng.standard_normal((batch, channels, height, width), dtype=np.float32),
        "weights": rng.standard_normal((filters, channels, 3, 3), dtype=np.float32) / np.float32(3 * channels**0.5),
        "bias": rng.standard_normal(filters, dtype=np.float32),
    }


def reference(images, weights, bias):
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((images.shape[0], weights.shape[0], height * width), images.dtype) + bias[:, None]
    for dy in range(3):
        for dx in range(3):
            window = padded[:, :, dy : dy + height, dx : dx + width]
            out += weights[:, :, dy, dx] @ window.reshape(*images.shape[:2], -1)
    return out.reshape(images.shape[0], weights.shape[0], height, width)


def flops(images, weights, **_):
    return 2.0 * 9 * images.size * weights.shape[0]
