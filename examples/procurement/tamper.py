"""Tampering: somebody with write access to the database turns a denial into an approval.

    python -m examples.procurement.tamper DATABASE RUN

One statement of SQL, nothing else. It goes through SQLite and in a process of its own:
what an operator's console could do, or a migration gone wrong, or a thief. Prints what was
stored and what is stored now.
"""

from __future__ import annotations

import json
import sys

import apsw

EDIT = """\
UPDATE remit_entry SET value = CAST('"approved"' AS BLOB)
 WHERE run_key = (SELECT run_key FROM remit_run WHERE run = ?)
   AND json_extract(header, '$.name') = 'decide'
   AND value = CAST('"denied"' AS BLOB)"""

_LOOK = """\
SELECT CAST(value AS TEXT) FROM remit_entry
 WHERE run_key = (SELECT run_key FROM remit_run WHERE run = ?)
   AND json_extract(header, '$.name') = 'decide'"""


def main(database: str, run: str) -> None:
    """Edit the saved decision of a run. Ends with 1 where there is no saved denial; nothing was changed then."""
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        was = connection.execute(_LOOK, (run,)).get
        connection.execute(EDIT, (run,))
        if connection.changes() != 1:
            sys.exit(f"{run} has no saved denial: {was}")
        print(json.dumps({"was": was, "now": connection.execute(_LOOK, (run,)).get}))
    finally:
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
