"""The files of KernelBench that are judged on a GPU, and what is wanted of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.baseline import VARIANTS


@dataclass(frozen=True)
class File:
    """One file of KernelBench, by its place in the checkout."""

    path: str
    kernel: str = ""
    """A right kernel of ours, beside tests/kernels/kernelbench."""
    variants: tuple[str, ...] = VARIANTS
    """Baselines to time."""
    refused: str = ""
    """Words of the audit's reason, where the task can't be judged at all."""
    small: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Sizes for a dry run on the CPU."""

    @property
    def name(self) -> str:
        return Path(self.path).stem


BRIEF = VARIANTS[:2]
"""Where tuning products and convolutions would take most of the device time that there is."""

FILES = (
    File("level1/1_Square_matrix_multiplication_.py", "matmul", small={"N": 64}),
    File("level1/4_Matrix_vector_multiplication_.py", "matvec", BRIEF, small={"K": 2048}),
    File("level1/19_ReLU.py", "relu", small={"dim": 512}),
    File("level1/26_GELU_.py", "gelu", small={"dim": 512}),
    File("level1/23_Softmax.py", "softmax", small={"dim": 512}),
    File("level1/36_RMSNorm_.py", "rms_norm", small={"dim1": 16, "dim2": 16}),
    File("level1/40_LayerNorm.py", "layer_norm", small={"dim1": 8, "dim2": 8}),
    File("level1/47_Sum_reduction_over_a_dimension.py", "sum_dim1", small={"dim1": 64, "dim2": 64}),
    File("level1/51_Argmax_over_a_dimension.py", "argmax_dim1", small={"dim1": 64, "dim2": 64}),
    File(
        "level1/63_conv_standard_2D__square_input__square_kernel.py",
        "conv2d",
        BRIEF,
        small={"batch_size": 2, "width": 32, "height": 32},
    ),
    File(
        "level1/82_conv_depthwise_2D_square_input_square_kernel.py",
        "conv2d_depthwise",
        BRIEF,
        small={"batch_size": 2, "width": 32, "height": 32},
    ),
    File("level1/89_cumsum.py", "cumsum", small={"batch_size": 8, "input_shape": [400]}),
    File("level1/94_MSELoss.py", small={"batch_size": 8}),
    File("level2/1_Conv2D_ReLU_BiasAdd.py", "", BRIEF, small={"batch_size": 8}),
    File("level2/12_Gemm_Multiply_LeakyReLU.py", "", BRIEF, small={"batch_size": 8, "in_features": 128}),
    File("level2/23_Conv3d_GroupNorm_Mean.py", "", BRIEF, small={"batch_size": 4}),
    File("level2/39_Gemm_Scale_BatchNorm.py", "", BRIEF, small={"batch_size": 8, "in_features": 128}),
    File("level2/76_Gemm_Add_ReLU.py", "gemm_add_relu", BRIEF, small={"batch_size": 8, "in_features": 128}),
    File("level2/80_Gemm_Max_Subtract_GELU.py", refused="zeros would pass", small={"batch_size": 8}),
    File("level2/99_Matmul_GELU_Softmax.py", "", BRIEF),
    File("level3/1_MLP.py", "", BRIEF),
    File("level3/8_ResNetBasicBlock.py", "", BRIEF, small={"batch_size": 1}),
)
