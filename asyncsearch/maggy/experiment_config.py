"""The configurations under the name of their module in Maggy 1.0."""

from asyncsearch.maggy.config import (
    AblationConfig,
    BaseConfig,
    DistributedConfig,
    HyperparameterOptConfig,
    LagomConfig,
    OptimizationConfig,
    TfDistributedConfig,
    TorchDistributedConfig,
)

__all__ = [
    "AblationConfig",
    "BaseConfig",
    "DistributedConfig",
    "HyperparameterOptConfig",
    "LagomConfig",
    "OptimizationConfig",
    "TfDistributedConfig",
    "TorchDistributedConfig",
]
