# expects: dstream
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

context = SparkContext(conf=SparkConf().setAppName("errors"))
stream = StreamingContext(context, 5)
lines = stream.socketTextStream("localhost", 9999)
errors = lines.filter(lambda line: "ERROR" in line)
errors.countByWindow(60, 5).pprint()
stream.start()
stream.awaitTermination()
