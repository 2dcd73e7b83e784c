"""A frame of trials that prints its times short, and that a notebook shows with one line a row. Imports pandas."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas


class TrialsFrame(pandas.DataFrame):
    """A ``DataFrame`` like any other, but for how it looks: names do not break at their hyphen, and times are short."""

    @property
    def _constructor(self) -> Any:
        """Let what is chosen or sorted out of it look the same."""
        return TrialsFrame

    def _page(self, named: Mapping[str, Any] = MappingProxyType({})) -> pandas.DataFrame:
        """Return an ordinary frame with its times to the second; Z stands for UTC.

        ``named``: arguments for how it is written; formatters of the user's get the times themselves.
        """
        page = pandas.DataFrame(self)
        for place, kind in enumerate(() if named.get("formatters") else self.dtypes):
            if isinstance(kind, pandas.DatetimeTZDtype):
                page.isetitem(place, page.iloc[:, place].dt.strftime("%Y-%m-%d %H:%M:%SZ").fillna(""))
        return page

    def __repr__(self) -> str:
        return repr(self._page())

    def to_string(self, *given: Any, **named: Any) -> Any:
        """Return all rows as text, as ``print(frame.to_string())`` shows them."""
        return self._page(named).to_string(*given, **named)

    def to_html(self, *given: Any, **named: Any) -> Any:
        """Return all rows as a page."""
        return self._page(named).to_html(*given, **named)

    def _repr_html_(self) -> str | None:
        shown: str | None = self._page()._repr_html_()  # type: ignore[operator]
        # On each cell: the style sheet of JupyterLab lets cells break, whatever is said of what is around them.
        return None if shown is None else shown.replace("<td>", '<td style="white-space: nowrap">')
