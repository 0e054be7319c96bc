#!/usr/bin/env python3
"""Trains with handwritten digits that Spark reads and feeds, and recognises others.

    spark-submit --py-files mnist_dist.py,mnist_files.py mnist_spark.py --cluster_size 3
        --images mnist_data/train/images --labels mnist_data/train/labels --format csv
        --mode train --model mnist_model

One of the nodes is a parameter server, the others train; a single node has its weights itself. `--mode inference` leaves lines of labels
and predictions in `--output`. For data that holds images and labels together (tfr) `--images` names
it alone.
"""

import argparse
import datetime
import sys

import mnist_dist
import mnist_files

from tensorflowonspark import TFCluster
from tfos.examples import spark_session


def yes_or_no(text):
    """Old command lines give --rdma a value, others don't."""
    return text.lower() not in ("false", "no", "0")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("-b", "--batch_size", type=int, default=100)
    parser.add_argument("-e", "--epochs", type=int, default=1)
    parser.add_argument("-f", "--format", choices=mnist_files.FORMATS, default="csv")
    parser.add_argument("-i", "--images", required=True, help="directory of images")
    parser.add_argument("-l", "--labels", help="directory of labels, if they are apart")
    parser.add_argument("-m", "--model", default="mnist_model", help="directory of checkpoints")
    parser.add_argument(
        "-n",
        "--cluster_size",
        type=int,
        help="nodes, the parameter server among them (default: spark.executor.instances, else 1)",
    )
    parser.add_argument("-o", "--output", default="predictions", help="directory for predictions")
    parser.add_argument(
        "-r",
        "--readers",
        type=int,
        default=1,
        help="for old command lines: there is no queue to fill any more",
    )
    parser.add_argument(
        "-s", "--steps", type=int, default=1000, help="most steps of all workers together"
    )
    parser.add_argument("-tb", "--tensorboard", action="store_true", help="start TensorBoard")
    parser.add_argument("-X", "--mode", choices=("train", "inference"), default="train")
    parser.add_argument(
        "-c",
        "--rdma",
        type=yes_or_no,
        nargs="?",
        const=True,
        default=False,
        help="use RDMA, where TensorFlow can",
    )
    return parser.parse_args()


def main(map_fun=mnist_dist.map_fun, input_mode=TFCluster.InputMode.SPARK):
    args = parse_arguments()
    args.cluster_size = args.cluster_size or int(
        spark_session.submitted("spark.executor.instances", 1)
    )
    print(f"{datetime.datetime.now().isoformat()} ===== Start", flush=True)
    spark = spark_session.session("mnist_spark", args.master, args.cluster_size)
    sc = spark.sparkContext
    try:
        rows = mnist_files.rows_of(sc, args.images, args.labels, args.format)
        args.pixels = len(rows.first()[0])
        cluster = TFCluster.run(
            sc,
            map_fun,
            args,
            args.cluster_size,
            num_ps=min(1, args.cluster_size - 1),
            tensorboard=args.tensorboard,
            input_mode=input_mode,
            log_dir=mnist_files.full_path(sc, args.model),
        )
        if args.tensorboard:
            print(f"TensorBoard: {cluster.tensorboard_url()}", flush=True)
        if input_mode == TFCluster.InputMode.SPARK and args.mode == "train":
            cluster.train(rows, args.epochs)
        elif input_mode == TFCluster.InputMode.SPARK:
            cluster.inference(rows).saveAsTextFile(args.output)
        cluster.shutdown()
    finally:
        spark.stop()
    print(f"{datetime.datetime.now().isoformat()} ===== Stop")
    print(f"Done: {args.model if args.mode == 'train' else args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
