"""What all parts of the notebook kit are made of: controls, forms, work in the background."""

from ._background import Background as Background
from ._controls import (
    Button as Button,
    Checkbox as Checkbox,
    Dropdown as Dropdown,
    FloatSlider as FloatSlider,
    IntSlider as IntSlider,
    Text as Text,
    Textarea as Textarea,
    ToggleButtons as ToggleButtons,
)
from ._fold import Fold as Fold
from ._forms import OptionForm as OptionForm
from ._part import Part as Part, close_all as close_all, row as row
