"""Object stores: settings that Spark needs for one. delta-rs and Arrow read the same `AWS_*` environment by themselves.

Secrets are never in the settings: the address, the region and the keys come from the environment of the process.
A store is fit for a lake if it can put an object only where none is (`If-None-Match`): commits depend on it.
"""

import os
from collections.abc import Mapping
from typing import Literal

from pyarrow import fs

from cutover.errors import DefinitionError

Extra = Literal["s3"]
SCHEMES: Mapping[str, Extra] = {"s3": "s3", "s3a": "s3"}


def is_object_store(uri: str) -> bool:
    """Return whether a place is an address, not a folder of this machine."""
    return "://" in uri and not uri.startswith("file://")


def place(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder or an address, and the path there, without a slash at its end."""
    system, path = fs.FileSystem.from_uri(uri)
    return system, path.rstrip("/")


def extra_jars(uri: str) -> Extra | None:
    """Return the set of JARs that Spark needs for a place, in addition to its own.

    Raises:
        DefinitionError: The address has a scheme that no path was tested with.
    """
    if not is_object_store(uri):
        return None
    scheme = uri.partition("://")[0]
    if scheme not in SCHEMES:
        msg = f"Lake `{uri}`: expected a folder or one of {', '.join(f'{s}://' for s in SCHEMES)}, got `{scheme}://`."
        raise DefinitionError(msg)
    return SCHEMES[scheme]


def spark_conf(uri: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the conf by which Spark reaches a place; the keys themselves it reads from the environment.

    Args:
        uri: Of the lake.
        environment: `AWS_ENDPOINT_URL` names a store that is not the cloud's own; `AWS_REGION` its region.

    Source:
        Hadoop 3.5, hadoop-aws, "Connecting to an Amazon S3 Bucket", "third-party stores".
    """
    if extra_jars(uri) is None:
        return {}
    conf = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if region := environment.get("AWS_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
        }
    return conf
