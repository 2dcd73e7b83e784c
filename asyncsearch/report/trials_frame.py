"""A frame of trials that prints its times short, and that a notebook shows with one line a row. Imports pandas."""

from __future__ import annotations

from typing import Any

import pandas


class TrialsFrame(pandas.DataFrame):
    """A ``DataFrame`` like any other, but for how it looks: names do not break at their hyphen, and times are short."""

    @property
    def _constructor(self) -> Any:
        """Let what is chosen or sorted out of it look the same."""
        return TrialsFrame

    def _page(self) -> pandas.DataFrame:
        """Return an ordinary frame with its times to the second; Z stands for UTC."""
        page = pandas.DataFrame(self)
        for place, kind in enumerate(self.dtypes):
            if isinstance(kind, pandas.DatetimeTZDtype):
                page.isetitem(place, page.iloc[:, place].dt.strftime("%Y-%m-%d %H:%M:%SZ").fillna(""))
        return page

    def __repr__(self) -> str:
        return repr(self._page())

    def _repr_html_(self) -> str | None:
        shown: str | None = self._page()._repr_html_()  # type: ignore[operator]
        # On each cell: the style sheet of JupyterLab lets cells break, whatever is said of what is around them.
        return None if shown is None else shown.replace("<td>", '<td style="white-space: nowrap">')
