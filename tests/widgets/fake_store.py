"""A store of models that exists in memory only: for tests, and for notebooks in browser tests."""

import threading
from datetime import UTC, datetime
from types import SimpleNamespace

from sparkwright.errors import DataError
from sparkwright.storage import ModelInfo, ModelList
from sparkwright_widgets._model_store._operations import Operations

FOLDER = "hdfs://name/models"


def info(name, **known):
    defaults = {"size_bytes": 1000, "format": "keras", "saved_at": datetime(2026, 1, 1, tzinfo=UTC)}
    return ModelInfo(url=f"{FOLDER}/{name}", **{**defaults, **known})


class FakeStore(Operations):
    """A store in memory, which can be made to fail or to hang."""

    def __init__(self, *models):
        self.models = {model.url: model for model in models}
        self.calls = []
        self.error = None
        self.hangs = threading.Event()
        self.hangs.set()

    def called(self, *call):
        self.calls.append(call)
        self.hangs.wait(30)
        if self.error is not None:
            raise self.error

    def list(self, url, *, recursive):
        self.called("list", url, recursive)
        return ModelList(url, self.models.values())

    def there(self, url):
        self.called("there", url)
        return self.models.get(url)

    def save(self, network, url, settings):
        self.called("save", network, url, dict(settings))
        self.models[url] = ModelInfo(url=url, size_bytes=10, title=settings["title"])

    def load(self, network, url):
        self.called("load", url)
        return SimpleNamespace(name="loaded")

    def verify(self, url):
        self.called("verify", url)
        if self.models[url].problem:
            raise DataError(f"damaged <part> in {url}")
        return self.models[url]

    def delete(self, url):
        self.called("delete", url)
        return self.models.pop(url, None) is not None

    def names(self, kind):
        return [call[1:] for call in self.calls if call[0] == kind]
