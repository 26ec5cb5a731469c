"""Settings of one installation: the environment (`CUTOVER_*`), then `cutover.toml`; read once, at the edge."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from cutover.errors import DefinitionError


class KafkaSettings(BaseModel):
    """How to reach the log. Neutral names; `cutover.log.options` turns them into each client's own keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap_servers: str | None = Field(
        default=None, description="An existing cluster. Unset: `cutover up` runs a broker."
    )
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    user: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = Field(default=None, description="A file that its owner alone can read.")
    ca_file: Path | None = Field(default=None, description="PEM file with the certificate authority.")
    client: dict[str, str] = Field(default_factory=dict, description="Further client keys; an allow-list applies.")
    timeout_seconds: float = Field(default=8.0, description="How long a broker may take to answer.")


class SparkSettings(BaseModel):
    """What is passed through to Spark: the same code runs locally, on standalone, YARN or Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = "local[2]"
    driver_memory: str = "1g"
    conf: dict[str, str] = Field(default_factory=dict)


class StreamSettings(BaseModel):
    """Pace and upkeep of the streaming path; none of it changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trigger_seconds: float = 0.5
    overflow_rows: int = Field(
        default=200_000, description="Partial rows of an epoch beyond which Spark writes the files."
    )
    fold_every: int = Field(default=100, description="Epochs between two folds (compactions).")
    ids_memory: str = Field(default="512MB", description="Memory for ids of records in the driver; beyond it, disk.")
    fold_memory: str = Field(default="512MB", description="Memory of a fold in the driver; beyond it, disk.")
    reload_every: int = Field(default=100, description="Commits after which the table handle is loaded anew.")
    heartbeat_seconds: float = 2.0


class ReadSettings(BaseModel):
    """DuckDB, which reads tables in the process that asks; none of it changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: str = Field(default="2GB", description="Memory of one reader; beyond it, disk (`<home>/tmp/duckdb`).")


class DimensionSettings(BaseModel):
    """How rows are joined with dimensions; none of it changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    look_seconds: float = Field(default=5.0, description="A stream looks for a new version no more often than this.")
    broadcast_rows: int = Field(
        default=10_000, description="Rows up to which each task gets a whole dimension; beyond, both are dealt out."
    )


NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]


class AlertSettings(BaseModel):
    """From where on an alert fires; none of it changes a result. Drills scale the times down."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stalled_seconds: NotNegative = Field(default=120.0, description="Unread records and no commit for this long.")
    silent_seconds: NotNegative = Field(default=60.0, description="No answer from the broker for this long.")
    open_seconds: NotNegative = Field(default=120.0, description="A transaction holds the log's end for this long.")
    held_seconds: NotNegative = Field(default=300.0, description="Records come and the watermark stands for this long.")
    rate_seconds: NotNegative = Field(default=600.0, description="Shares and conflicts are taken over this time.")
    filtered_records: NotNegativeCount = Field(
        default=100, ge=1, description="Newest records, at least, of which a filtered share is taken."
    )
    conflicts: NotNegativeCount = Field(default=5, description="Refused commits within that time, from one more on.")
    skew_seconds: NotNegative = Field(default=120.0, description="Driver clock against new log timestamps, either way.")
    ahead_seconds: NotNegative = Field(default=86_400.0, description="Most that any `max_ahead` is taken for.")
    outage_seconds: NotNegative = Field(default=3_600.0, description="Longest outage; the log must hold twice of it.")
    free_bytes: NotNegativeCount = Field(default=1 << 30, description="Free space below which nothing is safe.")
    batch_schedules: NotNegative = Field(default=2.0, description="Schedules without a batch run.")
    reconcile_schedules: NotNegative = Field(default=2.0, description="Schedules of the batch path without a verdict.")
    audit_schedules: NotNegative = Field(default=2.0, description="Days in KAPPA without an audit that says something.")
    one_key_share: NotNegative = Field(default=0.5, description="Share of one key in ten large epochs in a row.")
    one_key_records: NotNegativeCount = Field(default=1_000, description="Accepted records that make an epoch large.")
    growth_times: NotNegative = Field(
        default=2.0, description="Rows of the last hour / those of a usual hour of the week."
    )
    growth_hours: NotNegativeCount = Field(
        default=24, ge=1, description="Hours with rows before the usual one is known."
    )
    growth_rows: NotNegativeCount = Field(default=100_000, description="Rows an hour below which growth is no trouble.")


class MetricsSettings(BaseModel):
    """What is told to Prometheus and its kin, and where; none of it changes or stops a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Of a driver, on 127.0.0.1; 0: a free one, told in a file. Unset: none.",
    )
    files: bool = Field(default=True, description="Whether tasks write text files of metrics.")
    folder: Path | None = Field(default=None, description="Of these files. Unset: `<home>/metrics`.")
    airflow_port: int | None = Field(
        default=None,
        ge=1,
        le=65_535,
        description="Of an OpenTelemetry collector on 127.0.0.1 for Airflow. Unset: none.",
    )


class ServingSettings(BaseModel):
    """Where serving tables (`cutover serve-view`) are copied to as well."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    postgres: SecretStr | None = Field(
        default=None,
        description="Address of a PostgreSQL server (`postgresql://user@host/database`); None: no copy.",
    )
    postgres_schema: str = Field(default="cutover", pattern=r"^[a-z_][a-z0-9_]{0,62}$")


class LineageSettings(BaseModel):
    """Whom runs are told to, as OpenLineage events; none of it changes or stops a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = Field(default=None, description="Events are appended to it, one a line. Unset: none.")
    url: AnyHttpUrl | None = Field(default=None, description="Of a server that takes them, where no `file` is set.")
    every_seconds: float = Field(default=60.0, gt=0, description="Between two events of a driver that runs.")
    namespace: str = Field(default="cutover", description="Of the jobs, so that two installations can be told apart.")


class Settings(BaseSettings):
    """All settings. `cutover doctor` shows them, without secrets."""

    model_config = SettingsConfigDict(
        env_prefix="CUTOVER_", env_nested_delimiter="__", toml_file="cutover.toml", extra="forbid", frozen=True
    )

    home: Path = Field(default=Path(".cutover"), description="All state of this installation.")
    pipelines: Path = Field(default=Path("pipelines"), description="Folder of the definitions.")
    lake: str | None = Field(default=None, description="Folder or object-store URI. Unset: `<home>/lake`.")
    stream_version: int | None = Field(
        default=None, description="Version of the stream that commands look at. Unset: the one that serves."
    )
    report_base_url: str | None = Field(default=None, description="Where reports are served. Unset: file addresses.")
    kafka: KafkaSettings = KafkaSettings()
    spark: SparkSettings = SparkSettings()
    stream: StreamSettings = StreamSettings()
    dimensions: DimensionSettings = DimensionSettings()
    alerts: AlertSettings = AlertSettings()
    read: ReadSettings = ReadSettings()
    metrics: MetricsSettings = MetricsSettings()
    lineage: LineageSettings = LineageSettings()
    serving: ServingSettings = ServingSettings()
    _batch_tables: str | None = PrivateAttr(default=None)  # of an audit; None: beside the stream's

    @property
    def batch_tables(self) -> str | None:
        """Return the folder of batch tables that nobody is served; None: those of the pipeline."""
        return self._batch_tables

    def with_batch_tables(self, uri: str) -> Self:
        """Return settings under which the batch tables of a pipeline are those in a folder; no user can set it."""
        settings = self.model_copy()
        settings._batch_tables = uri  # noqa: SLF001 -- a copy of this very class
        return settings

    @property
    def lake_uri(self) -> str:
        """Return where the lake lies: an absolute folder, or a URI."""
        return self.lake if self.lake and "://" in self.lake else str((Path(self.lake or self.home / "lake")).resolve())

    @property
    def run_dir(self) -> Path:
        """Return the folder of pid files, ports and heartbeats."""
        return self.home.resolve() / "run"

    @property
    def reports_dir(self) -> Path:
        """`<home>/reports`, absolute; not made here."""
        return self.home.resolve() / "reports"

    @property
    def metrics_dir(self) -> Path:
        """Return the folder of text files of metrics, absolute; not made here."""
        return (self.metrics.folder or self.home / "metrics").resolve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order: arguments, environment, `cutover.toml`."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings() -> Settings:
    """Read the settings.

    Raises:
        DefinitionError: A key is unknown or a value does not fit; names each of them. Or the file is no TOML.
    """
    try:
        return Settings()
    except ValidationError as error:
        lines = [f"  {'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors(include_input=False)]
        msg = "Settings (`cutover.toml` or `CUTOVER_*`) do not fit:\n" + "\n".join(lines)
        msg += "\nHint: `cutover doctor` lists every setting with its meaning."
        raise DefinitionError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"Settings, `cutover.toml`: expected a file in TOML, got: {error}."
        raise DefinitionError(msg) from None
    except SettingsError as error:
        msg = f"Settings (`CUTOVER_*`): expected JSON for a whole section, got: {error}."
        raise DefinitionError(msg + "\nHint: `CUTOVER_KAFKA__PROTOCOL` sets one key of a section.") from None
