"""One way to write, read and remove what lies at a URL; models on top."""

from ._models import load_model as load_model, save_model as save_model
