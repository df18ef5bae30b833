"""Building blocks of all notebook widgets: controls, forms, background work."""

from ._background import Background as Background
from ._configuration_form import (
    ConfigurationForm as ConfigurationForm,
    NestedField as NestedField,
    Path as Path,
    changed_options as changed_options,
    values_of as values_of,
)
from ._confirmation import Confirmation as Confirmation
from ._controls import (
    Button as Button,
    Checkbox as Checkbox,
    Dropdown as Dropdown,
    ListBox as ListBox,
    Text as Text,
    Textarea as Textarea,
    ToggleButtons as ToggleButtons,
)
from ._fold import Fold as Fold
from ._forms import OptionForm as OptionForm, advice as advice, alert as alert
from ._part import (
    Part as Part,
    close_all as close_all,
    field as field,
    grid as grid,
    hint as hint,
    row as row,
    swap as swap,
)
from ._text_editor import TextEditor as TextEditor, download_link as download_link
