"""Tune a pipeline of Spark ML on the handwritten digits: trials are Spark jobs, side by side in threads of the driver.

    python scripts/digits_spark_ml.py                             on this machine
    python scripts/digits_spark_ml.py --remote "local[2]"         the same by Spark Connect; or sc://host:15002
    spark-submit --master spark://host:7077 scripts/digits_spark_ml.py --store /shared/studies/digits_spark_ml

A unit of training is a fold of the cross-validation: a pipeline that is poor on the first fold is not fitted on others.
To continue the study after any interruption, run the same command again.
"""

from __future__ import annotations

import argparse
import json
import os
from statistics import fmean

from sklearn.datasets import load_digits

from asyncsearch import ASHA, Study, choice, loguniform

FOLDS = 4


def start_spark(remote=""):
    """Start a session of Spark Connect, or a classic one on this machine or the cluster of spark-submit."""
    from pyspark.sql import SparkSession

    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    # With FAIR the jobs of all trials advance; by default those of one would wait for those of another.
    builder = SparkSession.builder.appName("digits-spark-ml").config("spark.scheduler.mode", "FAIR")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it
        builder = builder.master("local[*]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.getOrCreate()


def digits(spark, images=1797):
    """Return the first images of 8 x 8 pixels as a DataFrame, each with its label and the number of its fold."""
    from pyspark.ml.functions import array_to_vector

    pixels, labels = load_digits(return_X_y=True)
    rows = [(pixels[row].tolist(), float(labels[row]), row % FOLDS) for row in range(images)]
    table = spark.createDataFrame(rows, "pixels array<double>, label double, fold int")
    return table.select(array_to_vector("pixels").alias("pixels"), "label", "fold").coalesce(2).cache()


def make_pipeline(params):
    """Return a pipeline with the hyper-parameters of a trial, not fitted."""
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import DecisionTreeClassifier, LogisticRegression
    from pyspark.ml.feature import StandardScaler

    features = StandardScaler(inputCol="pixels", outputCol="features", withMean=True)
    if params["model"] == "tree":
        model = DecisionTreeClassifier(maxDepth=params["depth"], seed=0)
    else:
        model = LogisticRegression(regParam=params["reg"], elasticNetParam=params["l1"], maxIter=20)
    return Pipeline(stages=[features, model])


def make_trainable(table):
    """Return the function of a trial; it uses the DataFrame as it is, for it runs in this process."""
    from pyspark.ml.evaluation import MulticlassClassificationEvaluator

    def cross_validate(trial):
        scores = []
        pipeline = make_pipeline(trial.params)
        evaluator = MulticlassClassificationEvaluator(metricName="accuracy")

        def save(path):
            path.write_text(json.dumps(scores))

        def load(path):
            scores.extend(json.loads(path.read_text()))

        for unit in trial.epochs(save=save, load=load):
            fold = unit - 1
            model = pipeline.fit(table.where(table.fold != fold))
            scores.append(evaluator.evaluate(model.transform(table.where(table.fold == fold))))
            print(f"fold {fold}: {scores[-1]:.4f}")
            trial.report(accuracy=fmean(scores))

    return cross_validate


def make_study(table, store="studies/digits_spark_ml"):
    """Describe the search without starting or writing anything."""
    return Study(
        make_trainable(table),
        space={
            "model": choice("logistic", "tree"),
            "reg": loguniform(1e-5, 1.0).when(model="logistic"),
            "l1": choice(0.0, 0.5).when(model="logistic"),
            "depth": choice(3, 5, 8).when(model="tree"),
        },
        metric="accuracy",
        mode="max",
        scheduler=ASHA(max_resource=FOLDS, reduction_factor=2),  # decides after 1, 2 and 4 folds
        store=store,
        backend="threads",
        resume=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=16, help="trials in all (default: 16)")
    parser.add_argument("--parallelism", type=int, default=2, help="trials at a time (default: 2)")
    parser.add_argument("--remote", default="", help="address of a server of Spark Connect")
    parser.add_argument("--images", type=int, default=1797, help="how many of the images to use (default: all)")
    parser.add_argument("--store", default="studies/digits_spark_ml", help="folder or URL that the driver sees")
    options = parser.parse_args()

    spark = start_spark(options.remote)
    study = make_study(digits(spark, options.images), options.store)
    study.run(num_trials=options.trials, parallelism=options.parallelism)
    fitted, every = sum(trial.trained for trial in study.trials), FOLDS * len(study.trials)
    print(f"\nfitted {fitted} folds instead of {every}")
    print(f"the best is {study.best_trial.name}: accuracy {study.best_trial.value:.4f} over {FOLDS} folds")
    print(f"  {study.best_trial.params}")
    spark.stop()


if __name__ == "__main__":
    main()
