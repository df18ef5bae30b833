"""The cell of an LSTM with peepholes, which Keras lacks: its gates see the state of the cell.

Importing this module loads Keras and registers the class: Keras alone reads a saved model with it
after `import sparkwright.networks.peephole_lstm`.
"""

from typing import Any

import keras

ops: Any = keras.ops


@keras.saving.register_keras_serializable("sparkwright")
class PeepholeLSTMCell(keras.layers.LSTMCell):
    """Keras' LSTMCell with `peepholes`, (units, 3): of the forget, output and input gate.

    Arguments are those of LSTMCell; its dropout is not applied. Use it in `keras.layers.RNN`.
    """

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        super().build(input_shape)
        self.peepholes = self.add_weight(
            (self.units, 3), "zeros", regularizer=self.recurrent_regularizer, name="peepholes"
        )

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """One step: (n, features) and two states of (n, units) to an output and two states."""
        hidden, cell = states
        gate: Any = self.recurrent_activation
        act: Any = self.activation
        to_forget, to_output, to_input = ops.unstack(self.peepholes, axis=1)
        total = ops.matmul(inputs, self.kernel) + ops.matmul(hidden, self.recurrent_kernel)
        if self.use_bias:
            total += self.bias
        i, f, new, o = ops.split(total, 4, axis=-1)
        cell = gate(f + cell * to_forget) * cell + gate(i + cell * to_input) * act(new)
        hidden = gate(o + cell * to_output) * act(cell)
        return hidden, [hidden, cell]
