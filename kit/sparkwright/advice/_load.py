"""What a minibatch and an exchange of a network take, and what follows for a master; pure."""

from dataclasses import dataclass

from sparkwright.errors import ConfigurationError
from sparkwright.masters import ScalingCosts, ScalingPoint, TrainingMaster
from sparkwright.masters.cost import ExchangeCost, even_plan, exchange, interval
from sparkwright.options import MAX_BYTES, check_count, check_positive


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a minibatch and an exchange take.

    Attributes:
        step_s: seconds of one minibatch on one worker; None: unknown.
        vector_bytes: size of all averaged values as float32, including the parameters; None:
            unknown.
        updater_bytes: size of the optimizer's state.
        costs: the constants of the prediction.
    """

    step_s: float | None
    vector_bytes: int | None
    updater_bytes: int
    costs: ScalingCosts

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.step_s is not None:
            check_positive("step_s", self.step_s)
        check_count("vector_bytes", self.vector_bytes, maximum=MAX_BYTES, optional=True)
        check_count("updater_bytes", self.updater_bytes, minimum=0, maximum=MAX_BYTES)

    @property
    def is_known(self) -> bool:
        """Whether intervals can be predicted."""
        return self.step_s is not None and self.vector_bytes is not None

    def averaged_bytes(self, master: TrainingMaster) -> int:
        """Return the bytes of a worker's vector in an exchange; 0: unknown."""
        return master.exchange.averaged_bytes(self.vector_bytes or 0, self.updater_bytes)

    def exchange(self, master: TrainingMaster, workers: int) -> ExchangeCost:
        """Return the predicted cost of an exchange."""
        plan = even_plan(master, workers, self.step_s, self.averaged_bytes(master))
        return exchange(master, plan, self.costs)

    def point(self, master: TrainingMaster, workers: int) -> ScalingPoint:
        """Return the predicted interval of workers that are all busy.

        Raises:
            ConfigurationError: if the step time or the network is unknown.
        """
        if self.step_s is None or self.vector_bytes is None:
            raise ConfigurationError(
                "a prediction needs the time of a minibatch and a network. Received: "
                f"step_s={self.step_s!r}, vector_bytes={self.vector_bytes!r}. Give both."
            )
        plan = even_plan(master, workers, self.step_s, self.averaged_bytes(master))
        return interval(master, plan, self.step_s, self.costs)
