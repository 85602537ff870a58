"""Documents in the ledger: copies of state files, for the daemon of the next master."""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from htoolsd.store.tables import documents

Documents = Mapping[str, str | None]  # by name; None: removed


def write_documents(connection: Connection, cluster: str, writer: str, contents: Documents) -> None:
    """Replace documents of a cluster."""
    table = documents.c
    connection.execute(delete(documents).where(table.cluster == cluster, table.name.in_(contents)))
    rows = [
        {"cluster": cluster, "name": name, "writer": writer, "content": content}
        for name, content in contents.items()
    ]
    connection.execute(insert(documents), rows)


def documents_of_others(connection: Connection, cluster: str, writer: str) -> Documents:
    """Return the documents of a cluster that another writer has written last."""
    table = documents.c
    wanted = select(table.name, table.content).where(table.cluster == cluster, table.writer != writer)
    return dict(connection.execute(wanted).tuples().all())
