"""Settings of one installation, read once from the environment (`CUTOVER_*`) and then from `cutover.toml`."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from cutover.errors import DefinitionError


class KafkaSettings(BaseModel):
    """Connection to the log. `cutover.log.options` translates these neutral names to the keys of each client."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap_servers: str | None = Field(
        default=None, description="An existing cluster. Unset: `cutover up` runs a broker."
    )
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    user: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = Field(default=None, description="File that only its owner can read.")
    ca_file: Path | None = Field(default=None, description="PEM file with the certificate authority.")
    client: dict[str, str] = Field(default_factory=dict, description="Additional client keys; an allow-list applies.")
    timeout_seconds: float = Field(default=8.0, description="How long a broker may take to answer.")


class RegistrySettings(BaseModel):
    """Schema registry of topics in Avro, with the API of Confluent's. Schemas that were read are stored in the lake."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = Field(
        default=None, description="Its address, such as `https://registry:8081`; without a user or a password."
    )
    user: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = Field(default=None, description="File that only its owner can read.")
    ca_file: Path | None = Field(default=None, description="PEM file with the certificate authority.")
    timeout_seconds: float = Field(default=10.0, gt=0, description="How long it may take to answer, with all retries.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", url) is None:
            msg = "expected `http://host:port` or `https://host:port/path`; the user and the password have own settings"
            raise ValueError(msg)
        return url


class SparkSettings(BaseModel):
    """Options passed to Spark; the same code runs locally, on standalone clusters, YARN and Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = "local[2]"
    driver_memory: str = "1g"
    conf: dict[str, str] = Field(default_factory=dict)


class StreamSettings(BaseModel):
    """Pace and maintenance of the streaming path; no setting changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trigger_seconds: float = 0.5
    overflow_rows: int = Field(
        default=200_000, description="Partial rows of an epoch above which Spark writes the files."
    )
    fold_every: int = Field(default=100, description="Epochs between two folds (compactions).")
    ids_memory: str = Field(default="512MB", description="Memory for ids of records in the driver; spills to disk.")
    fold_memory: str = Field(default="512MB", description="Memory of a fold in the driver; spills to disk.")
    reload_every: int = Field(default=100, description="Commits after which the table handle is reloaded.")
    heartbeat_seconds: float = 2.0


class ReadSettings(BaseModel):
    """DuckDB, which reads tables inside the calling process; no setting changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: str = Field(default="2GB", description="Memory of one reader; spills to `<home>/tmp/duckdb`.")


class DimensionSettings(BaseModel):
    """Joins of rows with dimensions; no setting changes a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    look_seconds: float = Field(default=5.0, description="Minimum interval of a stream's checks for a new version.")
    broadcast_rows: int = Field(
        default=10_000, description="Rows up to which a dimension is broadcast; above, both sides are shuffled."
    )


NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]


class AlertSettings(BaseModel):
    """Thresholds of alerts; no setting changes a result. Drills scale the times down."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stalled_seconds: NotNegative = Field(default=120.0, description="Unread records and no commit for this long.")
    job_silent_seconds: NotNegative = Field(
        default=900.0, description="Unread records and no batch of a followed job for at least this long."
    )
    silent_seconds: NotNegative = Field(default=60.0, description="No answer from the broker for this long.")
    open_seconds: NotNegative = Field(default=120.0, description="An open transaction at the log's end for this long.")
    held_seconds: NotNegative = Field(
        default=300.0, description="Records arrive and the watermark does not advance for this long."
    )
    rate_seconds: NotNegative = Field(default=600.0, description="Period of shares and conflicts.")
    filtered_records: NotNegativeCount = Field(
        default=100, ge=1, description="Minimum number of newest records of which a filtered share is computed."
    )
    conflicts: NotNegativeCount = Field(default=5, description="More rejected commits than this in `rate_seconds`.")
    skew_seconds: NotNegative = Field(
        default=120.0, description="Difference of the driver's clock and new log timestamps, in either direction."
    )
    ahead_seconds: NotNegative = Field(default=86_400.0, description="Upper limit of the `max_ahead` that is used.")
    outage_seconds: NotNegative = Field(
        default=3_600.0, description="Longest expected outage; the log must retain twice as much."
    )
    free_bytes: NotNegativeCount = Field(default=1 << 30, description="Minimum free space.")
    batch_schedules: NotNegative = Field(default=2.0, description="Schedules without a batch run.")
    reconcile_schedules: NotNegative = Field(default=2.0, description="Schedules of the batch path without a verdict.")
    audit_schedules: NotNegative = Field(default=2.0, description="Days in KAPPA without a conclusive audit.")
    one_key_share: NotNegative = Field(default=0.5, description="Share of one key in ten large epochs in a row.")
    one_key_records: NotNegativeCount = Field(default=1_000, description="Accepted records that make an epoch large.")
    growth_times: NotNegative = Field(
        default=2.0, description="Rows of the last hour / those of a usual hour of the week."
    )
    growth_hours: NotNegativeCount = Field(
        default=24, ge=1, description="Hours with rows that are required for a baseline."
    )
    growth_rows: NotNegativeCount = Field(default=100_000, description="Rows per hour below which growth is ignored.")


class MetricsSettings(BaseModel):
    """Metrics for Prometheus and OpenTelemetry; no setting changes or fails a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of a driver on 127.0.0.1; 0: a free one, written to a file. Unset: none.",
    )
    files: bool = Field(default=True, description="Whether tasks write text files of metrics.")
    folder: Path | None = Field(default=None, description="Folder of these files. Unset: `<home>/metrics`.")
    airflow_port: int | None = Field(
        default=None,
        ge=1,
        le=65_535,
        description="Port of an OpenTelemetry collector on 127.0.0.1 for Airflow. Unset: none.",
    )


class ServingSettings(BaseModel):
    """Additional destinations of serving tables (`cutover serve-view`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    postgres: SecretStr | None = Field(
        default=None,
        description="Address of a PostgreSQL server (`postgresql://user@host/database`); None: no copy.",
    )
    postgres_schema: str = Field(default="cutover", pattern=r"^[a-z_][a-z0-9_]{0,62}$")


class LineageSettings(BaseModel):
    """Receiver of OpenLineage events; no setting changes or fails a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = Field(default=None, description="File to which events are appended, one per line. Unset: none.")
    url: AnyHttpUrl | None = Field(default=None, description="Server that receives the events if there is no `file`.")
    every_seconds: float = Field(default=60.0, gt=0, description="Interval of the events of a running driver.")
    namespace: str = Field(default="cutover", description="Namespace of the jobs, which identifies the installation.")


class Settings(BaseSettings):
    """All settings; `cutover doctor` shows them without secrets."""

    model_config = SettingsConfigDict(
        env_prefix="CUTOVER_", env_nested_delimiter="__", toml_file="cutover.toml", extra="forbid", frozen=True
    )

    home: Path = Field(default=Path(".cutover"), validate_default=True, description="All state of this installation.")
    pipelines: Path = Field(default=Path("pipelines"), validate_default=True, description="Folder of the definitions.")
    lake: str | None = Field(default=None, description="Folder or object-store URI. Unset: `<home>/lake`.")
    stream_version: int | None = Field(
        default=None, description="Version of the stream that commands use. Unset: the serving one."
    )
    report_base_url: str | None = Field(default=None, description="Base URL of reports. Unset: file URLs.")
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    spark: SparkSettings = SparkSettings()
    stream: StreamSettings = StreamSettings()
    dimensions: DimensionSettings = DimensionSettings()
    alerts: AlertSettings = AlertSettings()
    read: ReadSettings = ReadSettings()
    metrics: MetricsSettings = MetricsSettings()
    lineage: LineageSettings = LineageSettings()
    serving: ServingSettings = ServingSettings()

    @field_validator("home", "pipelines")
    @classmethod
    def _check_encoding(cls, path: Path) -> Path:
        try:
            str(path.resolve()).encode("utf-8")
        except UnicodeEncodeError as error:
            msg = f"expected a path in UTF-8, got {error.object!a}"
            raise ValueError(msg) from None
        return path

    _batch_tables: str | None = PrivateAttr(default=None)  # for an audit; None: those of the pipeline

    @property
    def batch_tables(self) -> str | None:
        """Return the folder of batch tables that are not served; None: those of the pipeline."""
        return self._batch_tables

    def with_batch_tables(self, uri: str) -> Self:
        """Return a copy of the settings with another folder of batch tables; not a setting of the user."""
        settings = self.model_copy()
        settings._batch_tables = uri  # noqa: SLF001 -- an instance of this class
        return settings

    @property
    def lake_uri(self) -> str:
        """Return the location of the lake: an absolute folder, or a URI."""
        return self.lake if self.lake and "://" in self.lake else str((Path(self.lake or self.home / "lake")).resolve())

    @property
    def run_dir(self) -> Path:
        """Return the folder of pid files, ports and heartbeats."""
        return self.home.resolve() / "run"

    @property
    def reports_dir(self) -> Path:
        """Return `<home>/reports` as an absolute path, without creating it."""
        return self.home.resolve() / "reports"

    @property
    def metrics_dir(self) -> Path:
        """Return the absolute folder of text files of metrics, without creating it."""
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
        DefinitionError: A key is unknown or a value is invalid; the message lists all of them. Or the file is not TOML.
    """
    try:
        return Settings()
    except ValidationError as error:
        lines = [f"  {'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors(include_input=False)]
        msg = "Settings (`cutover.toml` or `CUTOVER_*`) are invalid:\n" + "\n".join(lines)
        msg += "\nHint: `cutover doctor` lists every setting with its meaning."
        raise DefinitionError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"Settings, `cutover.toml`: expected a file in TOML, got: {error}."
        raise DefinitionError(msg) from None
    except SettingsError as error:
        msg = f"Settings (`CUTOVER_*`): expected JSON for a whole section, got: {error}."
        raise DefinitionError(msg + "\nHint: `CUTOVER_KAFKA__PROTOCOL` sets one key of a section.") from None
