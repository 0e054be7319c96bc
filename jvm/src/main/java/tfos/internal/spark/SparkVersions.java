package tfos.internal.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;

/**
 * What Spark 3.5 and the versions of Spark 4 have under the same name, in other classes or with
 * other types: looked up at run time, so that one jar serves them all. The jar is compiled against
 * Spark 4.1. Threads: any.
 */
public final class SparkVersions {
  private SparkVersions() {}

  /** Whether Spark tells its rules of readers before it looks their paths up: from 4.0 on. */
  public static boolean resolvesSourcesByRules() {
    try {
      Class.forName("org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource", false,
          SparkSession.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException error) {
      return false;
    }
  }

  public static QueryExecution execution(Dataset<?> frame) {
    return (QueryExecution) call(method(frame, "queryExecution"), frame);
  }

  static SessionState state(SparkSession spark) {
    return (SessionState) call(method(spark, "sessionState"), spark);
  }

  @SuppressWarnings("unchecked")
  static Dataset<Row> frame(SparkSession spark, RDD<InternalRow> rows, StructType schema) {
    Method made = method(
        spark, "internalCreateDataFrame", RDD.class, StructType.class, boolean.class);
    return (Dataset<Row>) call(made, spark, rows, schema, false);
  }

  /** A list that a plan has, by the name of its getter. */
  @SuppressWarnings("unchecked")
  public static <T> List<T> listOf(Object plan, String getter) {
    Object list = call(method(plan, getter), plan);
    return ScalaCollections.toJava((scala.collection.Iterable<T>) list);
  }

  private static Method method(Object object, String name, Class<?>... types) {
    try {
      return object.getClass().getMethod(name, types);
    } catch (NoSuchMethodException error) {
      throw new UnsupportedOperationException("tfos needs Spark itself on the driver and not Spark "
          + "Connect: run the program with spark-submit or spark-shell", error);
    }
  }

  /** Throws what the method throws. */
  static Object call(Method method, Object object, Object... arguments) {
    try {
      return method.invoke(object, arguments);
    } catch (InvocationTargetException error) {
      throw SparkVersions.<RuntimeException>asItIs(error.getCause());
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Spark's errors are checked exceptions of Java, which no method of Spark declares. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asItIs(Throwable error) throws E {
    throw (E) error;
  }
}
