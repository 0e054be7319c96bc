package tfos.internal.spark;

import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The rows of a DataFrame in Spark's own form, good until the next one is asked for. They are
 * planned when the first job asks for them: where Spark adapts plans, planning runs the shuffles.
 */
public final class FrameRows extends RDD<InternalRow> implements OlderRows {
  private static final long serialVersionUID = 1;
  private static final ClassTag<InternalRow> ROW = ClassTag$.MODULE$.apply(InternalRow.class);

  private final transient Dataset<?> frame;

  public FrameRows(Dataset<?> frame) {
    // Nothing comes of the parent: see getDependencies. The constructor that takes dependencies has
    // another type in Scala 2.12.
    super(frame.sparkSession().sparkContext().emptyRDD(ROW), ROW);
    this.frame = frame;
  }

  /** What this is based on, which the RDD asks for once, in the driver. */
  @Override
  public scala.collection.immutable.List<Dependency<?>> getDependencies() {
    // A query of its own: the one of the frame would not know what was cached since.
    Dataset<?> query = frame.select(functions.col("*"));
    return ScalaCollections.toScala(List.of(new OneToOneDependency<>(Sql.planned(query))));
  }

  @Override
  public Partition[] getPartitions() {
    return firstParent(ROW).partitions();
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext task) {
    return firstParent(ROW).iterator(partition, task);
  }
}

/** What an RDD has in Scala 2.12. Java makes a method of each type for that of FrameRows. */
interface OlderRows {
  scala.collection.Seq<Dependency<?>> getDependencies();
}
