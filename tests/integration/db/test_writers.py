"""Threads that write to SQLite at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa
from control import settings_for

from seqferry.db.database import Database


def test_threads_of_a_process_wait_in_line_and_do_not_find_the_database_locked(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, None)
    settings.prepare_state_dir()
    database = Database(settings)
    # SQLite does not wait for a lock that another connection holds: the statement fails at once.
    sa.event.listen(database.engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=0"))
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE written (thread INTEGER)"))
    failures: list[Exception] = []
    begin = threading.Barrier(8)

    def write(thread: int) -> None:
        begin.wait()
        try:
            for _ in range(25):
                with database.write() as connection:
                    connection.execute(sa.text("INSERT INTO written VALUES (:thread)"), {"thread": thread})
        except Exception as why:  # noqa: BLE001 - shown below
            failures.append(why)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM written")).scalar_one() == 200
    database.close()
