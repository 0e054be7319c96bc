"""Which columns of the feed a program wants, in which structure: what ``ctx.dataset`` and
``ctx.batches`` have in common. Imports neither TensorFlow nor NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tfos.base.quantities import whole_number
from tfos.errors import BadInputError

DENSE, RAGGED, STRINGS, RAGGED_STRINGS = "dense", "ragged", "strings", "ragged strings"
#: How a column comes that is declared ragged.
_AS_RAGGED = {
    DENSE: RAGGED,
    RAGGED: RAGGED,
    STRINGS: RAGGED_STRINGS,
    RAGGED_STRINGS: RAGGED_STRINGS,
}
#: Stands for the mask of padded batches where an element's structure has names of columns.
_MASK = "tfos mask"


class Column(NamedTuple):
    """A column of the feed, as the native side describes it."""

    name: str
    encoding: str
    #: NumPy's name; empty for strings.
    dtype: str
    #: The shape of one value; empty for ragged columns.
    shape: Sequence[int]

    @property
    def is_known(self) -> bool:
        """Whether anything says what its values are: not if they are lists and all empty."""
        return self.encoding != DENSE or self.dtype != ""

    @property
    def is_ragged(self) -> bool:
        return self.encoding == _AS_RAGGED[self.encoding]

    def as_ragged(self) -> Column:
        return self._replace(encoding=_AS_RAGGED[self.encoding], shape=[])


class Request(NamedTuple):
    """What a program asks of its batches, under the names of ``ctx.dataset``."""

    batch_size: int
    features: Any = None
    label: Any = None
    drop_remainder: bool = False
    remainder: str | None = None
    ragged: Sequence[str | int] = ()
    spec: Any = None
    #: Whose batches they are, for messages.
    node: str = "this node"


class Selection(NamedTuple):
    """A request that was checked against the columns that there are."""

    #: An element, with names of columns in place of their values.
    structure: Any
    #: The columns of the structure, in the order of ``flatten``.
    columns: list[Column]
    #: Rows of a batch, and whether all batches have as many.
    rows: int
    all_full: bool
    #: Arguments of the native side, apart from where batches go.
    native: tuple[list[tuple[Any, ...]], int, bool, str]


def select(
    source: Any,
    request: Request,
    column_of_spec: Callable[[str, Any, bool], Column],
    like: Any = None,
) -> Selection:
    """What ``request`` means for the rows of a native ``BatchSource``. Waits for them, unless they
    have a spec. ``column_of_spec`` makes a column of its name, its spec and whether it was declared
    ragged; ``like`` is the source whose first rows say what columns hold, if not ``source``."""
    rows = whole_number("batch_size", request.batch_size)
    if rows < 1:
        raise BadInputError(f"batch_size is {rows}; a batch has at least one row")
    remainder, drop_remainder = request.remainder, request.drop_remainder
    evened = remainder in ("drop", "pad")
    if drop_remainder and evened:
        raise BadInputError(
            f"drop_remainder does not go with remainder={remainder!r}, with which every batch is "
            f"full"
        )
    ragged = _names(request.ragged)
    if request.spec is not None:
        known = {
            name: column_of_spec(name, given, name in ragged)
            for name, given in _named_specs(request.spec).items()
        }
    else:
        known = _columns_of(source, request, like)
    columns = _declare_ragged(known, ragged)
    _check_positions(columns, [request.features, request.label])
    structure = _structure(list(columns), request.features, request.label)
    chosen = [columns[name] for name in flatten(structure)]
    native = ([tuple(column) for column in chosen], rows, drop_remainder, remainder or "none")
    if remainder == "pad":  # the mask, as the native side adds it
        structure = (*structure, _MASK) if request.label is not None else (structure, _MASK)
        chosen.append(Column(_MASK, DENSE, "float32", []))
    return Selection(structure, chosen, rows, drop_remainder or evened, native)


def flatten(structure: Any) -> list[str]:
    """The names in a structure; those of a dict in the order of its sorted keys."""
    if isinstance(structure, str):
        return [structure]
    parts = (
        [structure[key] for key in sorted(structure)] if isinstance(structure, dict) else structure
    )
    return [name for part in parts for name in flatten(part)]


def pack(structure: Any, values: Sequence[Any]) -> Any:
    """The structure with ``values``, in the order of ``flatten``, in place of the names."""
    return _pack(structure, iter(values))


def _pack(structure: Any, values: Any) -> Any:
    if isinstance(structure, str):
        return next(values)
    if isinstance(structure, dict):
        return {key: _pack(structure[key], values) for key in sorted(structure)}
    return tuple(_pack(part, values) for part in structure)


def _columns_of(source: Any, request: Request, like: Any) -> dict[str, Column]:
    """The columns of the next rows by name. Of ``like`` those of the last rows will do, so that
    nothing is waited for that comes later than what is read now. If it ends without any, its rows
    are not what the driver feeds."""
    columns = None if like is None else _by_name(like.peek(True))
    if columns is None or _empty_lists(columns, request):
        columns = _by_name(source.peek(False))
    if columns is None and source.stopped:
        # No mistake of the program's, which has nothing to go on with. So it ends as one that
        # calls sys.exit() does: as if it had returned.
        print(f"tfos: the cluster was stopped before {request.node} got a row", flush=True)
        raise SystemExit(0)
    if columns is None:
        raise BadInputError(
            f"the feed ended before {request.node} got a row, and no row of another node showed it "
            "what the columns hold: nothing was fed, or other nodes had got all rows before this "
            "one came. See how many rows there are (df.count()), feed more or use fewer nodes, or "
            "pass spec= with the columns' types, which makes an empty dataset"
        )
    empty = _empty_lists(columns, request)
    if empty:
        columns = _by_name(source.peek(False, empty)) or columns
        empty = _empty_lists(columns, request)
    if empty:
        raise BadInputError(
            f"all lists of {', '.join(map(repr, empty))} were empty so far, so nothing says what "
            "they are lists of: pass spec= with the columns' types"
        )
    return columns


def _by_name(peeked: Any) -> dict[str, Column] | None:
    if peeked is None:
        return None
    return {column.name: column for column in (Column(*column) for column in peeked)}


def _empty_lists(columns: dict[str, Column], request: Request) -> list[str]:
    """The columns asked for whose lists were all empty."""
    if all(column.is_known for column in columns.values()):
        return []
    asked_for = flatten(_structure(list(columns), request.features, request.label))
    return [name for name in asked_for if not columns[name].is_known]


def _named_specs(spec: Any) -> dict[str, Any]:
    if isinstance(spec, dict):
        return {str(name): given for name, given in spec.items()}
    by_position = spec if isinstance(spec, (list, tuple)) else [spec]
    return {str(position): given for position, given in enumerate(by_position)}


def _declare_ragged(columns: dict[str, Column], ragged: list[str]) -> dict[str, Column]:
    declared = dict(columns)
    for name in ragged:
        _check_known(name, list(columns))
        column = columns[name]
        if not column.is_ragged and len(column.shape) != 1:
            values = (
                "single strings"
                if not column.dtype and not column.shape
                else (f"of the shape {column.shape}")
            )
            raise BadInputError(
                f"column {name!r} cannot be ragged: its values are {values}, and only "
                "one-dimensional ones may vary in length"
            )
        declared[name] = column.as_ragged()
    return declared


def _check_positions(columns: dict[str, Column], asked_for: Iterable[Any]) -> None:
    """Raises :class:`BadInputError` for positions in rows that are one column as a whole."""
    only = columns.get("0")
    if len(columns) != 1 or only is None or len(only.shape) != 1:
        return
    for given in asked_for:
        for name in [] if given is None else _names(given):
            if name.isdecimal() and 0 < int(name) < only.shape[0]:
                raise BadInputError(
                    f"there is no column {name!r}: all {only.shape[0]} values of a row are of one "
                    "type, so a row is one column, '0'. Feed a DataFrame, Rows or dicts, whose "
                    "fields are columns, or split that column in the dataset"
                )


def _structure(names: list[str], features: Any, label: Any) -> Any:
    """An element of the dataset, with names of columns in place of tensors."""
    if features is None and label is None:
        return names[0] if len(names) == 1 else tuple(names) if len(names) == 2 else _dict(names)
    labels = [] if label is None else _names(label)
    chosen = _names(features) if features is not None else [n for n in names if n not in labels]
    if not chosen:
        raise BadInputError(f"no features are left besides the label {label!r}")
    for name in chosen + labels:
        _check_known(name, names)
    return _one_or_dict(chosen) if label is None else (_one_or_dict(chosen), _one_or_dict(labels))


def _one_or_dict(names: list[str]) -> Any:
    return names[0] if len(names) == 1 else _dict(names)


def _dict(names: list[str]) -> dict[str, str]:
    return {name: name for name in names}


def _names(given: Any) -> list[str]:
    """Names of columns, of one or several names or positions."""
    return [str(name) for name in ([given] if isinstance(given, (str, int)) else given)]


def _check_known(name: str, names: list[str]) -> None:
    if name not in names:
        raise BadInputError(f"the rows have no column {name!r}; they have {', '.join(names)}")
