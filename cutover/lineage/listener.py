"""Who takes the events: a file or a server, by OpenLineage's own client."""

from typing import TYPE_CHECKING

from cutover.settings import LineageSettings

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

HTTP_SECONDS = 5.0


def connect(lineage_settings: LineageSettings) -> "OpenLineageClient":
    """Return a client of the one that the settings name; a file's folder is made.

    Raises:
        OSError: The folder cannot be made.
        ImportError: The client is not installed.
    """
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 -- takes a second to load: where somebody listens
    from openlineage.client.transport.file import FileConfig, FileTransport  # noqa: PLC0415
    from openlineage.client.transport.http import HttpConfig, HttpTransport  # noqa: PLC0415

    if lineage_settings.file is not None:
        path = lineage_settings.file.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        return OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(path), append=True)))
    options = {"url": str(lineage_settings.url), "timeout": HTTP_SECONDS, "retry": {"total": 0}}
    return OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(options)))


def describe_trouble(error: Exception) -> str:
    """Return what went wrong without the words of an error, which may hold an address with its password."""
    answer = getattr(error, "response", None)
    status = getattr(answer, "status_code", None)
    return type(error).__name__ + (f", status {status}" if status is not None else "")
