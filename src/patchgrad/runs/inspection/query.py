"""Questions in SQL to the tables of runs, answered by DuckDB. Nothing is written, and nothing but the runs is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgrad.errors import ConfigError, MissingDependency, Refuse, StoreError, stop
from patchgrad.runs.inspection.columns import TABLES
from patchgrad.store import Run
from patchgrad.values import Report

if TYPE_CHECKING:
    import duckdb

NESTED = ("conversation",)
"""Of a table of attempts what `turns` shows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Names of the columns, and the rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def query(folders: Sequence[Path], question: str, refuse: Refuse = stop) -> Answer:
    """The answer of the runs in these folders to one `select`.

    A damaged record, report or table goes to `refuse`. Raises `ConfigError` for what is no such question, with DuckDB's reason, and
    `StoreError` for a table that breaks while it is read.
    """
    duck = _duckdb()
    with duck.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}) as database:
        _open(database, folders, refuse)
        try:
            statements = database.extract_statements(question)
            if len(statements) != 1 or statements[0].type not in (duck.StatementType.SELECT, duck.StatementType.EXPLAIN):
                raise ConfigError("a question is one select: the tables are attempts, turns, trained, metrics, policies and outcomes.")
            found = database.execute(statements[0])
            return Answer(tuple(column[0] for column in found.description or ()), tuple(found.fetchall()))
        except (duck.IOException, duck.InvalidInputException) as error:
            raise StoreError(f"a table cannot be read: {_sentence(error)}") from error
        except duck.Error as error:
            raise ConfigError(f"DuckDB does not understand that: {_sentence(error)}") from error


def described(folders: Sequence[Path], refuse: Refuse = stop) -> list[tuple[str, str, str, str]]:
    """Of each column its table, its name, its type and what it is."""
    duck = _duckdb()
    with duck.connect() as database:
        _open(database, folders, refuse)
        return [
            (name, column, kind, table.meaning(column))
            for name, table in TABLES.items()
            for column, kind, *_ in database.execute(f"describe {name}").fetchall()
        ]


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingDependency("Questions to a run are answered by DuckDB: pip install 'patchgrad[query]'.") from None
    return duckdb


def _open(database: duckdb.DuckDBPyConnection, folders: Sequence[Path], refuse: Refuse) -> None:
    """Makes the tables, and shuts all else: the files of other folders, and the network."""
    runs = [(folder.resolve().name, Run.open(folder)) for folder in folders]
    attempts = [(name, str(path)) for name, run in runs for path in run.rollouts.files() if _whole(database, path, refuse)]
    trained = [(name, str(path)) for name, run in runs for path in run.trained.files() if _whole(database, path, refuse)]
    files = [*attempts, *trained]
    _keep(database, "files", [{"run": name, "path": path} for name, path in files], {"run": "VARCHAR", "path": "VARCHAR"})
    _attempts(database, [path for _, path in attempts])
    _trained(database, [path for _, path in trained])
    metrics = [{"run": name, **_flat("", row)} for name, run in runs for row in run.results.metrics(refuse)]
    texts = {column for row in metrics for column, value in row.items() if isinstance(value, str)}
    own = {column: "VARCHAR" if column in texts else "DOUBLE" for row in metrics for column in row}
    _keep(database, "metrics", metrics, own or {"run": "VARCHAR", "phase": "VARCHAR", "iteration": "BIGINT"})
    reports = [(name, report) for name, run in runs for report in run.results.reports()]
    _keep(database, "policies", [_policy(name, report) for name, report in reports], _POLICY)
    outcomes = [row for name, report in reports for row in _outcomes(name, report)]
    _keep(
        database, "outcomes", outcomes, {"run": "VARCHAR", "policy": "VARCHAR", "task": "VARCHAR", "number": "BIGINT", "solved": "BOOLEAN"}
    )
    database.execute("set allowed_paths = ?", [[path for _, path in files]])
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")


def _whole(database: duckdb.DuckDBPyConnection, path: Path, refuse: Refuse) -> bool:
    """Can a table be opened? One that cannot goes to `refuse`, and the others answer without it."""
    try:
        database.execute("select count(*) from read_parquet(?)", [str(path)])
    except _duckdb().Error as error:
        refuse(StoreError(f"{path} cannot be read: {_sentence(error)}"))
        return False
    return True


def _attempts(database: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """`attempts` and `turns`, which are read from the files when somebody asks for them."""
    if not paths:
        for name in ("attempts", "turns"):
            _keep(database, name, [], dict.fromkeys(TABLES[name].columns, "VARCHAR"))
        return
    joined = _joined(paths)
    database.execute(f"create view attempts as select files.run, one.* exclude (filename, {', '.join(NESTED)}) {joined}")
    where = "files.run, phase, iteration, task, attempt"
    numbers = "unnest(range(1, len(conversation) + 1)) as turn"
    database.execute(f"create view turns as select {where}, {numbers}, unnest(conversation, recursive := true) {joined}")


def _trained(database: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """The same of `trained`, which runs of older versions do not have."""
    if not paths:
        _keep(database, "trained", [], _TRAINED)
        return
    database.execute(f"create view trained as select files.run, one.* exclude (filename) {_joined(paths)}")


def _joined(paths: Sequence[str]) -> str:
    """From these files, each row beside the run that it is of."""
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"from read_parquet([{listed}], filename = true, union_by_name = true) as one join files on files.path = one.filename"


_TRAINED = {
    **dict.fromkeys(("run", "phase", "attempt"), "VARCHAR"),
    **dict.fromkeys(("iteration", "turn", "update", "version"), "BIGINT"),
    **dict.fromkeys(("advantages", "weights", "old", "logprobs", "entropies"), "FLOAT[]"),
}
_POLICY = {
    "run": "VARCHAR",
    "policy": "VARCHAR",
    "tasks": "BIGINT",
    "attempts": "BIGINT",
    **dict.fromkeys(("pass_at_1", "pass_at_1_se", "pass_at_k", "submitted", "turns", "action_tokens", "seconds"), "DOUBLE"),
}


def _policy(run: str, report: Report) -> dict[str, Any]:
    return {
        "run": run,
        "policy": report.name,
        "tasks": report.tasks,
        "attempts": report.attempts,
        "pass_at_1": report.pass_at_1.mean,
        "pass_at_1_se": report.pass_at_1.error,
        "pass_at_k": report.pass_at_k.mean,
        "submitted": report.submitted.mean,
        "turns": report.turns,
        "action_tokens": report.action_tokens,
        "seconds": report.seconds,
    }


def _outcomes(run: str, report: Report) -> Iterator[dict[str, Any]]:
    for task, solved in report.outcomes.items():
        for number, one in enumerate(solved, 1):
            yield {"run": run, "policy": report.name, "task": task, "number": number, "solved": one}


def _flat(above: str, row: dict[str, Any]) -> dict[str, Any]:
    """A record in one level, `seconds_wall`, without the list of its updates."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= _flat(f"{above}{key}_", value)
        elif not isinstance(value, list):
            found[(above + key).replace(" ", "_").replace("/", "_")] = value
    return found


def _keep(database: duckdb.DuckDBPyConnection, name: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    """A table in memory; a row may lack columns."""
    declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    database.execute(f"create table {name} ({declared})")
    if rows:
        marks = ", ".join("?" for _ in columns)
        database.executemany(f"insert into {name} values ({marks})", [[row.get(column) for column in columns] for row in rows])


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
