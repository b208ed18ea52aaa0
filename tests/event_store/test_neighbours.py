"""The log among other applications, other processes, and in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

import psycopg
import pytest
from eventsourcing.application import Application
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from perdure import AgentRuns
from perdure.infrastructure.event_store.recorder import RunEventsRecorder
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.testing import a_run

from .hosts import Order, new_run


@pytest.fixture
def log(database_url: str) -> Iterator[RunLog]:
    log = RunLog(database_url)
    yield log
    log.close()


# -- other applications in the same schema --------------------------------------------------------------


def other_application(conninfo: str, name: str, schema: str) -> Application[str]:
    parameters = conninfo_to_dict(conninfo)
    application: type[Application[str]] = type(name, (Application,), {"name": name})
    return application(
        {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "ORIGINATOR_ID_TYPE": "text",
            "POSTGRES_ENABLE_DB_FUNCTIONS": "y",
            "POSTGRES_DBNAME": str(parameters["dbname"]),
            "POSTGRES_HOST": str(parameters.get("host", "")),
            "POSTGRES_PORT": str(parameters.get("port", "")),
            "POSTGRES_USER": str(parameters.get("user", "")),
            "POSTGRES_PASSWORD": "",
            "POSTGRES_SCHEMA": schema,
        }
    )


@pytest.mark.parametrize("ours_first", [True, False])
def test_two_applications_in_one_schema_keep_to_their_own_tables(database_url: str, ours_first: bool) -> None:
    """The library's insert function bears no table's name: ours neither replaces it nor goes through it."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shared")
    if ours_first:
        log = RunLog(database_url, schema="shared")
        other = other_application(database_url, "shop", "shared")
    else:
        other = other_application(database_url, "shop", "shared")
        log = RunLog(database_url, schema="shared")

    other.save(Order("1"))
    log.save(new_run("run-1"))
    other.save(Order("2"))
    log.close()
    other.close()

    with psycopg.connect(database_url) as connection:
        ours = connection.execute("SELECT DISTINCT originator_id FROM shared.perdure_events").fetchall()
        theirs = connection.execute("SELECT originator_id FROM shared.shop_events ORDER BY 1").fetchall()
    assert ours == [("run-1",)]
    assert theirs == [("order-1",), ("order-2",)]


def test_two_schemas_are_two_logs(database_url: str) -> None:
    """Runs of one schema are not seen in another."""
    with (
        AgentRuns.connect(database_url, schema="one") as one,
        AgentRuns.connect(database_url, schema="two") as two,
    ):
        one.ports.store.append(list(a_run(run_id="run-1")))

        assert one.ports.store.run_ids() == ["run-1"]
        assert two.ports.store.run_ids() == []


@pytest.mark.parametrize("schema", ["Mixed Case", 'with "quotes"', "sch\u00e9ma", "select"])
def test_schemas_may_have_any_name(database_url: str, schema: str) -> None:
    """The name of the schema is an identifier, and never a piece of a statement."""
    with AgentRuns.connect(database_url, schema=schema) as runs:
        runs.ports.store.append(list(a_run(run_id="run-1")))

        assert runs.state("run-1").run_id == "run-1"


# -- other processes -----------------------------------------------------------------------------------


def _connect_at_once(conninfo: str, ready: Barrier) -> None:
    ready.wait(60)
    with AgentRuns.connect(conninfo):
        pass


def test_eight_processes_create_the_tables_at_once(database_url: str) -> None:
    """All of them find the tables as they need them, and none fails."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.event_store.test_neighbours"])
    ready = context.Barrier(8)
    processes = [context.Process(target=_connect_at_once, args=(database_url, ready)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 8


def test_many_threads_append_to_many_runs(log: RunLog) -> None:
    """Appends from several threads at once are all there, each stream in order."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: log.save(new_run(f"run-{n}"), Order(str(n))), range(64)))

    assert isinstance(log.recorder, RunEventsRecorder)
    assert len(log.recorder.run_ids("", 100)) == 64
    assert log.recorder.max_notification_id() == 128


# -- the environment -----------------------------------------------------------------------------------

HOSTILE = {
    "PERSISTENCE_MODULE": "eventsourcing.sqlite",
    "PERDURE_PERSISTENCE_MODULE": "eventsourcing.popo",
    "POSTGRES_DBNAME": "nowhere",
    "POSTGRES_HOST": "nowhere.invalid",
    "POSTGRES_PORT": "1",
    "POSTGRES_USER": "nobody",
    "POSTGRES_PASSWORD": "wrong",
    "POSTGRES_SCHEMA": "elsewhere",
    "PERDURE_POSTGRES_SCHEMA": "elsewhere",
    "POSTGRES_ENABLE_DB_FUNCTIONS": "y",
    "ORIGINATOR_ID_TYPE": "uuid",
    "CREATE_TABLE": "no",
    "COMPRESSOR_TOPIC": "zlib",
    "PERDURE_COMPRESSOR_TOPIC": "zlib",
    "CIPHER_TOPIC": "eventsourcing.cipher:AESCipher",
    "CIPHER_KEY": "x",
    "TRANSCODER_TOPIC": "pickle",
    "MAPPER_TOPIC": "nowhere:Mapper",
    "APPLICATION_RECORDER_TOPIC": "nowhere:Recorder",
    "IS_SNAPSHOTTING_ENABLED": "y",
    "AGGREGATE_CACHE_MAXSIZE": "1",
}


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "postgres"])
def test_the_environment_leaks_neither_in_nor_out(
    database_url: str, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """Settings of another application change nothing here, and ours change nothing there."""
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)

    log = RunLog(None if in_memory else database_url)
    log.save(new_run("run-1"))
    (stored,) = log.recorder.select_events("run-1")
    log.close()

    assert json.loads(stored.state)["agent"] == "agent"
    assert dict(os.environ) == before
    assert log.env.get("POSTGRES_HOST", "") == ""


# -- connection parameters -----------------------------------------------------------------------------


def test_other_connection_parameters_are_honoured(database_url: str) -> None:
    """What the connection string says beyond host and database holds for every connection."""
    address = make_conninfo(
        database_url, application_name="billing", options="-c statement_timeout=54321 -c jit=off"
    )
    with AgentRuns.connect(address) as runs:
        assert isinstance(runs.log.recorder, RunEventsRecorder)
        datastore = runs.log.recorder.datastore
        with datastore.get_connection() as connection:
            row = connection.execute(
                "SELECT current_setting('application_name') AS name, "
                "current_setting('statement_timeout') AS timeout, current_setting('jit') AS jit"
            ).fetchone()
        with psycopg.connect(database_url) as looking:
            names = looking.execute(
                "SELECT DISTINCT application_name FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()

    assert row == {"name": "billing", "timeout": "54321ms", "jit": "off"}
    assert names == [("billing",)]


def test_a_url_is_as_good_as_a_connection_string(database_url: str) -> None:
    """Both forms of an address reach the same log."""
    parameters = conninfo_to_dict(database_url)
    host = str(parameters["host"]).replace("/", "%2F")
    url = f"postgresql://{parameters['user']}@{host}/{parameters['dbname']}?application_name=by-url"
    with AgentRuns.connect(database_url) as one, AgentRuns.connect(url) as other:
        one.ports.store.append(list(a_run(run_id="run-1")))

        assert other.state("run-1").run_id == "run-1"
