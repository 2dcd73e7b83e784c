"""Values of Spark in a trainable: broadcast variables, which travel, and objects of the driver alone, which do not."""

from __future__ import annotations

from typing import Any

_DRIVER_ONLY = {
    "Accumulator": "an accumulator of Spark, to which only tasks of Spark add. Report the number instead, as in "
    "trial.report(..., count=count)",
    "SparkSession": "the session of Spark, which only the driver has. Read what trials need before the search, as in "
    "rows = spark.table(...).toPandas(), and use rows in the function",
    "SparkContext": "the context of Spark, which only the driver has. Read what trials need before the search, as in "
    "rows = sc.textFile(...).collect(), and use rows in the function",
    "RDD": "an RDD of Spark, which only the driver has. Collect it before the search, as in rows = {name}.collect(), "
    "and use rows in the function",
    "DataFrame": "a DataFrame of Spark, which only the driver has. Collect it before the search, as in "
    "rows = {name}.toPandas(), and use rows in the function; if it is large, write it to files with "
    "{name}.write.parquet(...), and read them with trial.once(...)",
    "Frame": "a DataFrame of Spark, which only the driver has. Collect it before the search, as in "
    "rows = {name}.to_pandas(), and use rows in the function",
    "JavaWrapper": "an object of Spark ML, which only the driver has. Train with it in Spark itself, or with a library "
    "that needs no Spark in the function",
    "SQLContext": "the context of Spark SQL, which only the driver has. Read what trials need before the search, as in "
    "rows = spark.table(...).toPandas(), and use rows in the function",
    "Column": "a column of Spark, which only the driver has. Collect its values before the search, as in "
    "rows = df.select({name}).toPandas(), and use rows in the function",
    "GroupedData": "a grouping of Spark, which only the driver has. Collect the result before the search, as in "
    "rows = {name}.count().toPandas(), and use rows in the function",
}
"""Name of a class -> words on its objects, and the line to write."""


class UnsendableError(Exception):
    """A value that must not be sent; ``words`` name it and the line to write."""

    def __init__(self, value: object, words: str) -> None:
        super().__init__(words.format(name="it"))
        self.value, self.words = value, words


def spark_words(value: object) -> str | None:
    """Return words on a value of Spark that only the driver has, with the line to write. None if it is another one."""
    for kind in type(value).__mro__:
        if kind.__module__.partition(".")[0] == "pyspark" and kind.__name__ in _DRIVER_ONLY:
            return _DRIVER_ONLY[kind.__name__]
    return None


def value_of_broadcast(value: object) -> tuple[Any] | None:
    """Return the value of a broadcast variable, alone in a tuple. None if it is something else."""
    kind = type(value)
    if kind.__name__ == "Broadcast" and kind.__module__ in ("pyspark.broadcast", "pyspark.core.broadcast"):
        return (value.value,)  # type: ignore[attr-defined]
    return None
