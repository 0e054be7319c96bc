package tfos.internal.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.List$;
import scala.collection.immutable.ListMap$;

/**
 * Scala's lists and maps as Java's and back, by what Scala 2.12 (Spark 3.5) and 2.13 (Spark 4) both
 * have: their own conversions are in different classes. Threads: any.
 */
public final class ScalaCollections {
  private static final Method UPDATED = updated();

  private ScalaCollections() {}

  public static <T> List<T> toJava(scala.collection.Iterable<T> values) {
    List<T> list = new ArrayList<>();
    for (Iterator<T> each = values.iterator(); each.hasNext();) {
      list.add(each.next());
    }
    return list;
  }

  public static <K, V> Map<K, V> toJava(scala.collection.Map<K, V> values) {
    Map<K, V> map = new LinkedHashMap<>();
    for (Iterator<Tuple2<K, V>> each = values.iterator(); each.hasNext();) {
      Tuple2<K, V> entry = each.next();
      map.put(entry._1(), entry._2());
    }
    return map;
  }

  /** A list, which is a Seq to either version. */
  public static <T> scala.collection.immutable.List<T> toScala(List<T> values) {
    scala.collection.immutable.List<T> list = List$.MODULE$.empty();
    for (ListIterator<T> each = values.listIterator(values.size()); each.hasPrevious();) {
      list = list.$colon$colon(each.previous());
    }
    return list;
  }

  /** In the same order. */
  public static <K, V> scala.collection.immutable.Map<K, V> toScala(Map<K, V> values) {
    scala.collection.immutable.Map<K, V> map = ListMap$.MODULE$.empty();
    for (Map.Entry<K, V> entry : values.entrySet()) {
      map = with(map, entry.getKey(), entry.getValue());
    }
    return map;
  }

  @SuppressWarnings("unchecked")
  private static <K, V> scala.collection.immutable.Map<K, V> with(
      scala.collection.immutable.Map<K, V> map, K key, V value) {
    return (scala.collection.immutable.Map<K, V>) SparkVersions.call(UPDATED, map, key, value);
  }

  /** Both versions have it, with other types of its result. */
  private static Method updated() {
    try {
      return scala.collection.immutable.Map.class.getMethod("updated", Object.class, Object.class);
    } catch (NoSuchMethodException error) {
      throw new NoSuchMethodError(error.getMessage());
    }
  }
}
