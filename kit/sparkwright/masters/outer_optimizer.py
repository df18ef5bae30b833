"""An optimizer whose gradients are the changes between averagings; pure."""

from typing import Any

from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option

_PIECE = 1 << 16  # elements whose intermediate values fit into a processor's cache


@configuration
class OuterOptimizer(Configuration):
    """Gradient descent with momentum on the change of each averaging.

    Let x be the parameters after the last averaging and m the mean of the workers' parameters. The
    outer gradient is x - m. Each averaging computes

        v  <-  momentum * v + (x - m)
        x  <-  x - learning_rate * v                             without `nesterov`
        x  <-  x - learning_rate * ((x - m) + momentum * v)      with `nesterov`

    The velocity v is 0 at the start of a run. All workers compute the same values, so no extra data
    is sent. The defaults are those of DiLoCo. Without momentum and with a learning rate of 1, x
    becomes m.

    Example:
        >>> import numpy as np
        >>> mean, velocity = np.array([0.0, 1.0]), np.zeros(2)
        >>> outer = OuterOptimizer(momentum=0.5, learning_rate=1.0, nesterov=False)
        >>> outer.step(np.array([1.0, 1.0]), mean, np.array([2.0, 0.0]), velocity)
        >>> mean.tolist(), velocity.tolist()
        ([-1.0, 1.0], [2.0, 0.0])

    References:
        J. Wang et al., "SlowMo: Improving communication-efficient distributed SGD with slow
        momentum", ICLR 2020, arXiv:1910.00643; A. Douillard et al., "DiLoCo: Distributed
        low-communication training of language models", 2023, arXiv:2311.08105.
    """

    momentum: float = option(
        default=0.9,
        minimum=0,
        below=1,
        help="Fraction of the velocity kept at each averaging. 0 needs no velocity, which takes "
        "twice the memory of the trainable parameters.",
    )
    learning_rate: float = option(
        default=0.7,
        above=0,
        help="Factor of the step. 1 goes as far as plain averaging, and farther with momentum.",
    )
    nesterov: bool = option(
        default=True,
        label="Nesterov momentum",
        help="Use Nesterov momentum, as DiLoCo does. SlowMo does not.",
    )

    def step(
        self,
        before: NDArray[Any],
        mean: NDArray[Any],
        velocity: NDArray[Any],
        new_velocity: NDArray[Any],
    ) -> None:
        """Replace `mean` by the new parameters, and fill `new_velocity`.

        Args:
            before: (n,) the parameters after the last averaging; not modified.
            mean: (n,) the mean of the workers' parameters.
            velocity: (n,) after the last averaging; not modified. Empty if `momentum` is 0.
            new_velocity: output of the same shape, for the next averaging.
        """
        for start in range(0, mean.size, _PIECE):
            part = slice(start, start + _PIECE)
            change = before[part] - mean[part]
            if self.momentum:
                moved = self.momentum * velocity[part] + change
                new_velocity[part] = moved
                change = change + self.momentum * moved if self.nesterov else moved
            mean[part] = before[part] - self.learning_rate * change
