"""What the picker says beside the options themselves, and what it assumes of machines. Pure."""

from sparkwright.masters import ParameterAveragingTrainingMaster, SharedTrainingMaster
from sparkwright.options import Option

AVERAGING = ParameterAveragingTrainingMaster.__name__
SHARING = SharedTrainingMaster.__name__
WHAT = {
    AVERAGING: "Each worker trains a copy on its own data; every few minibatches the copies are "
    "averaged. Steady, and the same from run to run with a seed.",
    SHARING: "Each worker sends the others what it has learnt, shortened, after every minibatch "
    "or a few. Nobody waits; results differ a little from run to run.",
}
WHERE = {
    False: "Workers are tasks of Spark, on any number of machines.",
    True: "Workers are processes of this machine, without Spark. The right choice "
    "if one machine is enough.",
}
ASSUMPTIONS = (
    Option(
        name="step_ms",
        kind="float",
        optional=True,
        above=0,
        none_text="not known",
        unit="ms",
        label="One minibatch takes",
        help="Measured by the button, or your own figure of one worker.",
    ),
    Option(
        name="bandwidth_gbit",
        kind="float",
        default=10.0,
        above=0,
        unit="Gbit/s",
        label="Network of a machine",
        help="10 is usual within a cluster; within one machine it is 20 or so.",
    ),
)
