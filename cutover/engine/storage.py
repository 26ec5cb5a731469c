"""Object stores: confs that Spark needs for one. delta-rs and Arrow read the same `AWS_*` environment directly.

Secrets are never in the settings: address, region and keys come from the environment of the process. A lake needs a
store with conditional puts (`If-None-Match`), on which commits depend.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from cutover.errors import DefinitionError

Extra = Literal["s3"]
SCHEMES: Mapping[str, Extra] = {"s3": "s3", "s3a": "s3"}


def is_object_store(uri: str) -> bool:
    """Return whether a URI is an object store's, not a folder on this machine."""
    return "://" in uri and not uri.startswith("file://")


def make_absolute(place: str, *, of: str) -> str:
    """Return the absolute path of a folder, or the URI of one in an object store.

    Raises:
        DefinitionError: The text is empty, or the scheme of the URI is not supported; `of` is the name of the option.
    """
    if not place.strip():
        msg = f"{of}: expected a folder or a URI, got none."
        raise DefinitionError(msg)
    if is_object_store(place):
        if place.partition("://")[0] not in SCHEMES:
            schemes = " or ".join(f"{name}://" for name in SCHEMES)
            msg = f"{of}: expected a folder or a URI that begins with {schemes}, got `{place[:80]}`."
            raise DefinitionError(msg)
        return place
    if place.startswith("file:"):
        place = unquote(urlsplit(place).path)
    return str(Path(place).absolute())


def resolve_uri(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder or URI, and the path in it without a final slash."""
    system, path = fs.FileSystem.from_uri(uri)
    return system, path.rstrip("/")


def extra_jars(uri: str) -> Extra | None:
    """Return the additional set of JARs that Spark needs for a URI; None for a folder.

    Raises:
        DefinitionError: The scheme of the URI is not supported.
    """
    if not is_object_store(uri):
        return None
    scheme = uri.partition("://")[0]
    if scheme not in SCHEMES:
        known_schemes = ", ".join(f"{name}://" for name in SCHEMES)
        msg = f"Lake `{uri}`: expected a folder or one of {known_schemes}, got `{scheme}://`."
        raise DefinitionError(msg)
    return SCHEMES[scheme]


def spark_conf(uri: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the confs by which Spark accesses a URI; it reads the keys from the environment.

    Args:
        uri: URI of the lake.
        environment: `AWS_ENDPOINT_URL` is the address of a store outside AWS, `AWS_REGION` its region.

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
