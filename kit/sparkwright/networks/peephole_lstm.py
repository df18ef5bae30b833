"""An LSTM cell with peepholes, which Keras lacks: its gates read the cell state.

Importing this module loads Keras and registers the class. `keras.saving.load_model` reads a saved
model that has one only after `import sparkwright.networks.peephole_lstm`.
"""

from typing import Any

import keras

ops: Any = keras.ops


@keras.saving.register_keras_serializable("sparkwright")
class PeepholeLSTMCell(keras.layers.LSTMCell):
    """LSTMCell with (units, 3) peephole weights: forget, output and input gate; no dropout."""

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        super().build(input_shape)
        self.peepholes = self.add_weight(
            (self.units, 3), "zeros", regularizer=self.recurrent_regularizer, name="peepholes"
        )

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """Return the output (n, units) of a step, and the new hidden and cell state."""
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
