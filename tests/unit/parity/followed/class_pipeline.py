# expects: none
import logging
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json

log = logging.getLogger(__name__)


class Pipeline:
    """Totals of payments by account, merged into a table."""

    schema = "account string, cents bigint"

    def __init__(self, spark: SparkSession, topic: str) -> None:
        self.spark = spark
        self.topic = topic

    def read(self) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", "kafka:9092")
        return reader.option("subscribe", self.topic).option("startingOffsets", "earliest").load()

    def parse(self, raw: DataFrame) -> DataFrame:
        return raw.select(from_json(col("value").cast("string"), self.schema).alias("p")).select("p.*")

    def upsert(self, table, batch, number):
        log.info("batch %s", number)
        target = DeltaTable.forName(batch.sparkSession, table)
        matched = target.alias("t").merge(batch.alias("s"), "t.account = s.account").whenMatchedUpdateAll()
        matched.whenNotMatchedInsertAll().execute()

    def run(self) -> None:
        totals = self.read().transform(self.parse).groupBy("account").agg(count("*").alias("payments"))
        writer = totals.writeStream.outputMode("update").foreachBatch(partial(self.upsert, "totals"))
        writer.option("checkpointLocation", f"/checkpoints/{self.topic}").start().awaitTermination()


if __name__ == "__main__":
    Pipeline(SparkSession.builder.getOrCreate(), "payments").run()
