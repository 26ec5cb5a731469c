"""Spark's configuration for an object store."""

import pytest

from cutover.engine import storage
from cutover.errors import DefinitionError


@pytest.mark.parametrize("uri", ["/data/lake", "file:///data/lake"])
def test_a_folder_is_no_object_store(uri: str) -> None:
    assert (storage.is_object_store(uri), storage.extra_jars(uri), storage.spark_conf(uri, {})) == (False, None, {})


def test_a_self_hosted_store_is_reached_by_path_and_address() -> None:
    conf = storage.spark_conf("s3://lake/a", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": "eu-1"})

    assert conf == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-1",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def test_no_key_goes_into_the_conf() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "canary", "AWS_SECRET_ACCESS_KEY": "canary"}

    assert "canary" not in str(storage.spark_conf("s3://lake/a", keys))


def test_an_untested_scheme_is_rejected() -> None:
    with pytest.raises(
        DefinitionError, match=r"Lake `gs://lake`: expected a folder or one of s3://, s3a://, got `gs://`"
    ):
        storage.extra_jars("gs://lake")
